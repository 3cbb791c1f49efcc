// PNG through libspng. Samples of 16 bits keep their high byte; gamma and profiles are ignored.
#include <string>

#include "overlord/media/image/codecs/colour.h"
#include "overlord/media/image/image_decode.h"

#ifdef OVERLORD_HAS_PNG
#include <spng.h>
#endif

namespace overlord::media {

#ifdef OVERLORD_HAS_PNG

namespace {

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};

constexpr size_t kLargestChunk = size_t{16} << 20;

Status failed(int code, std::string_view step) {
  return bad_data("PNG cannot be decoded: " + std::string(spng_strerror(code)) + " (while " +
                  std::string(step) + ")");
}

// Into `to`, which is shaped for the format.
Status decode_as(spng_ctx* context, int format, int flags, Image& to) {
  size_t wanted = 0;
  if (const int code = spng_decoded_image_size(context, format, &wanted); code != 0) {
    return failed(code, "asking for its size");
  }
  if (wanted != to.size_bytes()) {
    return bad_data("PNG decodes to " + std::to_string(wanted) + " bytes where its header tells " +
                    std::to_string(to.size_bytes()));
  }
  if (const int code = spng_decode_image(context, to.row(0), wanted, format, flags); code != 0) {
    return failed(code, "reading its pixels");
  }
  return {};
}

}  // namespace

Status decode_png(std::string_view bytes, const ImageHeader& header, const DecodeOptions& options,
                  DecodeScratch& scratch, Image* out) {
  const std::unique_ptr<spng_ctx, FreeContext> context(spng_ctx_new(0));
  if (context == nullptr) return {Code::kResource, "PNG decoder: out of memory"};
  spng_set_chunk_limits(context.get(), kLargestChunk, kLargestChunk);
  spng_set_image_limits(context.get(), static_cast<uint32_t>(header.width),
                        static_cast<uint32_t>(header.height));
  if (const int code = spng_set_png_buffer(context.get(), bytes.data(), bytes.size()); code != 0) {
    return failed(code, "opening");
  }
  spng_ihdr first = {};
  if (const int code = spng_get_ihdr(context.get(), &first); code != 0) {
    return failed(code, "reading its header");
  }
  if (static_cast<int64_t>(first.width) != header.width ||
      static_cast<int64_t>(first.height) != header.height) {
    return bad_data("PNG holds another size than its header was read as");
  }
  out->shape(header.width, header.height, 3);
  const bool over = header.alpha && options.alpha == AlphaRule::kOver;
  if (!over) {
    // libspng gives 8-bit RGB of 16-bit files only with alpha beside it.
    if (header.bit_depth < 16) return decode_as(context.get(), SPNG_FMT_RGB8, 0, *out);
  }
  Image& wide = scratch.wide;
  wide.shape(header.width, header.height, 4);
  const int flags = over ? SPNG_DECODE_TRNS : 0;
  OVERLORD_RETURN_IF_ERROR(decode_as(context.get(), SPNG_FMT_RGBA8, flags, wide));
  for (int32_t y = 0; y < header.height; ++y) {
    if (over) {
      rgba_row_over(wide.row(y), header.width, options.background, out->row(y));
    } else {
      rgba_row_drop(wide.row(y), header.width, out->row(y));
    }
  }
  return {};
}

#else

Status decode_png(std::string_view, const ImageHeader&, const DecodeOptions&, DecodeScratch&,
                  Image*) {
  return codec_absent("PNG", "libspng-dev");
}

#endif

}  // namespace overlord::media
