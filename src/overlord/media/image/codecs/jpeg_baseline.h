// Our own decoder for JPEG files of the usual kind, to planes, at full size or shrunk by the
// transform: what libjpeg-turbo gives, bit for bit, in less time (docs/decisions/0041). It never
// says that a file is bad: it takes a file as a whole or leaves it to libjpeg as a whole.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "overlord/media/image/codecs/jpeg_baseline_header.h"
#include "overlord/media/image/codecs/jpeg_entropy.h"
#include "overlord/media/image/codecs/jpeg_shrink.h"
#include "overlord/media/image/image_decode.h"

namespace overlord::media {

// How one component lies in the file and in memory.
struct PlaneShape {
  int32_t across = 1;  // sampling factors
  int32_t down = 1;
  int32_t block = 8;  // samples that a block of 8x8 becomes, each side
};

// Places the planes of a picture in scratch.plane_bytes; starts[c] is the writable plane c.
void lay_out_planes(const ImageHeader& header, std::span<const PlaneShape> shapes,
                    DecodeScratch& scratch, JpegPlanes* out, uint8_t** starts);

// True when `out` holds the planes. False: not a file of the usual kind, or damaged, or with
// coefficients that no picture has; `out` is then as it was or holds nothing of use.
bool decode_baseline_planes(std::string_view bytes, const ImageHeader& header, int32_t divisor,
                            DecodeScratch& scratch, JpegPlanes* out);

// The decoder itself, with the memory and tables that it keeps between pictures.
class BaselineDecoder {
 public:
  static constexpr uint32_t kLast = 63;  // index of a block's last coefficient
  // Indexes of coefficients run up to an end of block behind the last one; all behind the last fall
  // into one place that nobody reads.
  static constexpr size_t kIndexes = kLast + AcTable::kEndOfBlock + 1;

  bool decode(std::string_view bytes, const BaselineHeader& file, const ImageHeader& header,
              int32_t divisor, DecodeScratch& scratch, JpegPlanes* out);

 private:
  struct Component {
    int32_t across = 1;
    int32_t down = 1;
    int32_t size = 8;           // samples of a block, each side
    int32_t blocks_across = 0;  // that hold samples of the picture
    int32_t blocks_down = 0;
    uint8_t* to = nullptr;
    ptrdiff_t stride = 0;
    int32_t average = 0;  // DC of the block before
    const DcTable* dc = nullptr;
    const AcTable* ac = nullptr;
    std::array<int16_t, kIndexes> factors = {};  // zigzag order, zero behind the last
  };
  // What decoding one block told: whether it went well, and its largest index with a coefficient.
  struct BlockEnd {
    bool good = false;
    uint32_t last = 0;
  };
  void prepare(const BaselineHeader& file, int32_t divisor);
  bool decode_units(int32_t from, int32_t to, int32_t per_row, size_t length);
  bool decode_unit(BitReader& bits, int32_t column, int32_t row);
  void deliver(const Component& part, uint32_t last, uint8_t* to);
  template <bool kFlat>
  struct BlockReader;
  template <bool kFlat>
  BlockEnd decode_block(BitReader& bits, Component& part);

  std::array<DcTable, 4> dc_;
  std::array<AcTable, 4> ac_;
  std::array<Component, 3> components_;
  int32_t count_ = 0;
  const uint8_t* latest_ = nullptr;  // where a block's reader may still be when it starts
  CoefficientBlock block_;
  BlockShrinker shrinker_;
  std::vector<uint8_t> segment_;
};

}  // namespace overlord::media
