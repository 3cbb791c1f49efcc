#include "overlord/media/image/image_decode.h"

#include <string>

#include "overlord/media/refusals.h"

namespace overlord::media {

Status check_limits(const ImageHeader& header, size_t encoded_bytes, const ImageLimits& limits) {
  const auto encoded = static_cast<int64_t>(encoded_bytes);
  OVERLORD_RETURN_IF_ERROR(
      within_limit("picture", "size in bytes", encoded, "max_bytes", limits.bytes));
  const int64_t pixels = int64_t{header.width} * header.height;
  if (pixels > limits.pixels) {
    const std::string size = size_text({header.width, header.height});
    return within_limit("picture", "number of pixels (" + size + ")", pixels, "max_pixels",
                        limits.pixels);
  }
  OVERLORD_RETURN_IF_ERROR(
      within_limit("picture", "number of JPEG scans", header.scans, "max_scans", limits.scans));
  const int64_t decoded = pixels * 3;
  const int64_t ratio = decoded / (encoded > 0 ? encoded : 1);
  if (decoded > limits.ratio_floor && ratio > limits.ratio) {
    return within_limit("picture",
                        "decoded bytes per encoded byte (" +
                            size_text({header.width, header.height}) + " from " +
                            std::to_string(encoded) + " bytes)",
                        ratio, "max_ratio", limits.ratio);
  }
  if (header.frames > 1) {
    return bad_data("picture refused before decoding: it is animated (" +
                    std::to_string(header.frames) + " frames or more); only stills are read");
  }
  return {};
}

int32_t jpeg_divisor(ImageSize source, ImageSize wanted) {
  for (const int32_t divisor : {8, 4, 2}) {
    if (source.width / divisor >= wanted.width && source.height / divisor >= wanted.height) {
      return divisor;
    }
  }
  return 1;
}

ImageSize divided(const ImageHeader& header, int32_t divisor) {
  return {(header.width + divisor - 1) / divisor, (header.height + divisor - 1) / divisor};
}

Status decode_image(std::string_view bytes, const ImageHeader& header, const DecodeOptions& options,
                    int32_t divisor, DecodeScratch& scratch, Image* out) {
  OVERLORD_RETURN_IF_ERROR(check_limits(header, bytes.size(), options.limits));
  OVERLORD_CHECK(divisor == 1 || header.format == ImageFormat::kJpeg, "only JPEG is divided");
  switch (header.format) {
    case ImageFormat::kJpeg:
      return decode_jpeg(bytes, header, options, divisor, scratch, out);
    case ImageFormat::kPng:
      return decode_png(bytes, header, options, scratch, out);
    case ImageFormat::kWebp:
      return decode_webp(bytes, header, options, scratch, out);
  }
  return internal_error("picture format without a decoder");
}

Status codec_absent(std::string_view format, std::string_view package) {
  return {Code::kInvalidArgument, "this build reads no " + std::string(format) + "; install " +
                                      std::string(package) +
                                      " and build again (`overlord doctor` lists the codecs)"};
}

}  // namespace overlord::media
