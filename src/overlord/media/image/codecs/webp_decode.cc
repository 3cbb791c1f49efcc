// WebP stills through libwebp, lossy and lossless.
#include <string>

#include "overlord/media/image/codecs/colour.h"
#include "overlord/media/image/image_decode.h"

#ifdef OVERLORD_HAS_WEBP
#include <webp/decode.h>
#endif

namespace overlord::media {

#ifdef OVERLORD_HAS_WEBP

namespace {

std::string_view failure_text(VP8StatusCode code) {
  switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "out of memory";
    case VP8_STATUS_BITSTREAM_ERROR:
      return "its data is damaged";
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return "it is cut: its data ends before the last pixel";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it uses a feature that is not supported";
    default:
      return "its data makes no sense";
  }
}

}  // namespace

Status decode_webp(std::string_view bytes, const ImageHeader& header, const DecodeOptions& options,
                   DecodeScratch& scratch, Image* out) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return internal_error("libwebp of another version");
  const bool over = header.alpha && options.alpha == AlphaRule::kOver;
  out->shape(header.width, header.height, 3);
  Image& to = over ? scratch.wide : *out;
  if (over) to.shape(header.width, header.height, 4);
  config.output.colorspace = over ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = to.row(0);
  config.output.u.RGBA.stride = static_cast<int>(to.stride());
  config.output.u.RGBA.size = to.size_bytes();
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  VP8StatusCode code = WebPGetFeatures(data, bytes.size(), &config.input);
  if (code == VP8_STATUS_OK &&
      (config.input.width != header.width || config.input.height != header.height)) {
    return bad_data("WebP holds another size than its header was read as");
  }
  if (code == VP8_STATUS_OK) code = WebPDecode(data, bytes.size(), &config);
  if (code != VP8_STATUS_OK) {
    return bad_data("WebP cannot be decoded: " + std::string(failure_text(code)));
  }
  for (int32_t y = 0; over && y < header.height; ++y) {
    rgba_row_over(to.row(y), header.width, options.background, out->row(y));
  }
  return {};
}

#else

Status decode_webp(std::string_view, const ImageHeader&, const DecodeOptions&, DecodeScratch&,
                   Image*) {
  return codec_absent("WebP", "libwebp-dev");
}

#endif

}  // namespace overlord::media
