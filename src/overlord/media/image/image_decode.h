// From encoded bytes to 8-bit RGB. Grey is spread over three channels, CMYK and YCCK are converted
// by Pillow's rule, 16-bit samples keep their high byte, palettes are looked up, transparency is
// laid over a declared background or dropped as declared; colour profiles are ignored. Limits are
// checked against the header before anything is allocated, and what was decoded against the header.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/media/image/image.h"
#include "overlord/media/image/image_header.h"

namespace overlord::media {

// exact: every pixel, equal to libjpeg-turbo's full decode. scaled: the transform itself shrinks
// the picture by 2, 4 or 8 where what follows wants it that much smaller (Pillow's `draft`).
enum class JpegMode : uint8_t { kExact, kScaled };

enum class AlphaRule : uint8_t { kOver, kDrop };

struct ImageLimits {
  int64_t bytes = int64_t{64} << 20;        // encoded
  int64_t pixels = int64_t{100} << 20;      // decoded, before any scaling
  int32_t scans = 64;                       // JPEG; Pillow and cameras write up to 10 or so
  int64_t ratio = 2000;                     // decoded bytes per encoded byte, above ratio_floor
  int64_t ratio_floor = int64_t{16} << 20;  // decoded bytes that no ratio makes dangerous

  friend bool operator==(const ImageLimits&, const ImageLimits&) = default;
  OVERLORD_FIELDS(bytes, pixels, scans, ratio, ratio_floor)
};

struct DecodeOptions {
  JpegMode jpeg = JpegMode::kExact;
  AlphaRule alpha = AlphaRule::kOver;
  std::array<uint8_t, 3> background = {255, 255, 255};
  ImageLimits limits;

  friend bool operator==(const DecodeOptions&, const DecodeOptions&) = default;
  OVERLORD_FIELDS(jpeg, alpha, background, limits)
};

// One plane of a JPEG before upsampling and colour conversion.
struct Plane {
  const uint8_t* data = nullptr;
  ptrdiff_t stride = 0;
  int32_t width = 0;  // samples that belong to the picture
  int32_t height = 0;
  // The picture's own width is `across / across_per` samples of this plane, a fraction where sides
  // are odd or scaled; likewise down.
  int64_t across = 0;
  int64_t across_per = 1;
  int64_t down = 0;
  int64_t down_per = 1;
};

struct JpegPlanes {
  int32_t count = 0;  // 1: grey; 3: Y, Cb, Cr
  std::array<Plane, 3> planes;
};

class BaselineDecoder;
class JpegSession;

// Memory that decoding keeps between pictures. One per thread.
class DecodeScratch {
 public:
  DecodeScratch();
  ~DecodeScratch();
  DecodeScratch(DecodeScratch&&) noexcept;
  DecodeScratch& operator=(DecodeScratch&&) noexcept;

  JpegSession& jpeg();
  BaselineDecoder& baseline();
  Image wide;                        // four channels, on the way to three
  std::vector<uint8_t> plane_bytes;  // what JpegPlanes points to
  bool only_libjpeg = false;         // without our own decoder, to compare the two

 private:
  std::unique_ptr<JpegSession> jpeg_;
  std::unique_ptr<BaselineDecoder> baseline_;
};

// Ok when a picture of this header and this many encoded bytes may be decoded.
Status check_limits(const ImageHeader& header, size_t encoded_bytes, const ImageLimits& limits);

// The largest divisor (8, 4, 2 or 1) that leaves of `source` at least `wanted`, both sides.
int32_t jpeg_divisor(ImageSize source, ImageSize wanted);

// Size after a division, as decode_image and decode_jpeg_planes give it.
ImageSize divided(const ImageHeader& header, int32_t divisor);

// `divisor` is 1 for anything but a JPEG in scaled mode. `header` is what probe_image said of
// `bytes`. The pixels are as stored: orientation is a transform.
Status decode_image(std::string_view bytes, const ImageHeader& header, const DecodeOptions& options,
                    int32_t divisor, DecodeScratch& scratch, Image* out);

// The planes of a grey or YCbCr file, without upsampling or conversion. Other colour spaces leave
// `out->count` at 0 with an ok Status: use decode_image.
Status decode_jpeg_planes(std::string_view bytes, const ImageHeader& header,
                          const ImageLimits& limits, int32_t divisor, DecodeScratch& scratch,
                          JpegPlanes* out);

// One per codec; limits are checked and `out` is as decode_image leaves it.
Status decode_jpeg(std::string_view bytes, const ImageHeader& header, const DecodeOptions& options,
                   int32_t divisor, DecodeScratch& scratch, Image* out);
Status decode_png(std::string_view bytes, const ImageHeader& header, const DecodeOptions& options,
                  DecodeScratch& scratch, Image* out);
Status decode_webp(std::string_view bytes, const ImageHeader& header, const DecodeOptions& options,
                   DecodeScratch& scratch, Image* out);

// The Status of a codec that this build was made without.
Status codec_absent(std::string_view format, std::string_view package);

}  // namespace overlord::media
