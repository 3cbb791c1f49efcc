#include "overlord/media/image/image_header.h"

#include "overlord/media/byte_view.h"
#include "overlord/media/refusals.h"

namespace overlord::media {
namespace {

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";

constexpr KnownStranger kStrangers[] = {
    {"GIF87a", "a GIF"},
    {"GIF89a", "a GIF"},
    {"BM", "a BMP"},
    {std::string_view("II*\0", 4), "a TIFF"},
    {std::string_view("MM\0*", 4), "a TIFF"},
    {"<HTML", "an HTML page"},
    {"<svg", "an SVG"},
    {"<?xml", "an XML document"},
    {"%PDF", "a PDF"},
};

Status not_a_picture(std::string_view bytes) {
  std::string name = stranger_name(bytes, kStrangers);
  if (name.empty() && holds(bytes, 4, 8) && bytes.substr(4, 4) == "ftyp") {
    name = "an ISO media file (AVIF, HEIC or video)";
  }
  return wrong_format("picture", bytes, name, "; pictures must be JPEG, PNG or WebP");
}

}  // namespace

Result<ImageFormat> image_format(std::string_view bytes) {
  if (bytes.starts_with("\xff\xd8\xff")) return ImageFormat::kJpeg;
  if (bytes.starts_with(kPngSignature)) return ImageFormat::kPng;
  if (holds(bytes, 0, 12) && bytes.starts_with("RIFF") && bytes.substr(8, 4) == "WEBP") {
    return ImageFormat::kWebp;
  }
  return not_a_picture(bytes);
}

Result<ImageHeader> probe_image(std::string_view bytes) {
  OVERLORD_TRY(const ImageFormat format, image_format(bytes));
  switch (format) {
    case ImageFormat::kJpeg:
      return probe_jpeg(bytes);
    case ImageFormat::kPng:
      return probe_png(bytes);
    case ImageFormat::kWebp:
      return probe_webp(bytes);
  }
  return internal_error("picture format without a header reader");
}

}  // namespace overlord::media
