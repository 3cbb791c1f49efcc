#include "overlord/media/image/codecs/jpeg_baseline.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace overlord::media {
namespace {

constexpr int32_t kBlock = 8;
// Bits of a block: at most 27 for each of 64 symbols, 216 bytes; and what the reader looks ahead.
constexpr size_t kAhead = 8;
constexpr size_t kPad = 256;

constexpr std::array<uint8_t, BaselineDecoder::kIndexes> make_places() {
  constexpr size_t kIndexes = BaselineDecoder::kIndexes;
  constexpr uint32_t kLast = BaselineDecoder::kLast;
  std::array<uint8_t, kIndexes> places = {};
  for (uint8_t& place : places) place = CoefficientBlock::kBeyond;
  int x = 0;
  int y = 0;
  for (size_t i = 0; i <= kLast; ++i) {
    places[i] = static_cast<uint8_t>(y * kBlock + x);
    // Diagonal by diagonal, the even ones upwards.
    const bool up = (x + y) % 2 == 0;
    int& forward = up ? x : y;
    int& back = up ? y : x;
    if (forward == kBlock - 1) {
      ++back;
    } else {
      ++forward;
      if (back > 0) --back;
    }
  }
  return places;
}
constexpr std::array<uint8_t, BaselineDecoder::kIndexes> kPlaces = make_places();
static_assert(kPlaces[1] == 1 && kPlaces[2] == 8 && kPlaces[35] == 56 && kPlaces[63] == 63);

int32_t blocks_for(int32_t pixels, int32_t factor, int32_t most) {
  return (pixels * factor + most * kBlock - 1) / (most * kBlock);
}

// The size that libjpeg gives a component: where chroma has fewer samples it is shrunk less, up to
// the size of luma.
int32_t block_size(int32_t divisor, const BaselineComponent& part, const BaselineComponent& luma) {
  int32_t size = kBlock / divisor;
  const int32_t smallest = size;
  while (size < kBlock && luma.across * smallest % (part.across * size * 2) == 0 &&
         luma.down * smallest % (part.down * size * 2) == 0) {
    size *= 2;
  }
  return size;
}

}  // namespace

void BaselineDecoder::prepare(const BaselineHeader& file, int32_t divisor) {
  count_ = file.count;
  const BaselineComponent& luma = file.components[0];
  for (int32_t c = 0; c < count_; ++c) {
    const BaselineComponent& from = file.components[static_cast<size_t>(c)];
    Component& part = components_[static_cast<size_t>(c)];
    part.across = from.across;
    part.down = from.down;
    part.size = block_size(divisor, from, luma);
    part.blocks_across = blocks_for(file.width, from.across, luma.across);
    part.blocks_down = blocks_for(file.height, from.down, luma.down);
    dc_[from.dc].make(file.dc[from.dc]);
    ac_[from.ac].make(file.ac[from.ac]);
    part.dc = &dc_[from.dc];
    part.ac = &ac_[from.ac];
    for (size_t i = 0; i <= kLast; ++i) {
      part.factors[i] = static_cast<uint8_t>(file.quantisation[from.quantisation][i]);
    }
  }
}

// An index between the last one and an end of block: where no code leads.
constexpr uint32_t kAstray = BaselineDecoder::kLast + 1;

// A block on the way. Everything lives in registers: the functions below are all inlined.
template <bool kFlat>
struct BaselineDecoder::BlockReader {
  BitReader bits;
  uint32_t at = 0;     // index of the latest coefficient
  int64_t energy = 0;  // sum of squares
  const int16_t* factors;
  int16_t* values;
  const AcTable& table;

  [[gnu::always_inline]] void put(uint32_t index, int32_t coefficient) {
    if constexpr (!kFlat) {
      const int32_t value = coefficient * factors[index];
      energy += int64_t{value} * value;
      values[kPlaces[index]] = static_cast<int16_t>(value);
    }
  }

  // One look, for which there are kLookBits; whether the block goes on.
  [[gnu::always_inline]] bool step() {
    const AcTable::Look look = table.look(bits.window);
    const uint32_t to = at + look.all_steps();
    if (to >= kLast) [[unlikely]]
      return last_step(look);
    // Where there is no second one it falls onto the first: the first goes on top.
    put(to, look.second());
    put(at + look.first_step(), look.first());
    at = to;
    bits.drop(look.all_bits());
    return true;
  }

  // A look that ends the block, or is none.
  [[gnu::always_inline]] bool last_step(AcTable::Look look) {
    if (look.is_long()) {
      bits.refill();
      const AcTable::Step step = table.decode_long(bits.window);
      at = step.bits == 0 ? kAstray : at + step.step;
      put(at, step.value);
      bits.drop(step.bits);
      bits.refill();
      return at < kLast;
    }
    const uint32_t first = at + look.first_step();
    const bool is_full = first - kLast < AcTable::kEndOfBlock - kLast;
    at += look.all_steps();
    if (is_full) [[unlikely]] {
      // The first symbol fills the block; what follows is another block's.
      at = first;
      bits.drop(look.first_bits());
    } else {
      put(at, look.second());
      bits.drop(look.all_bits());
    }
    put(first, look.first());
    return false;
  }
};

// Into block_, all zeros before; kFlat: only the average is wanted, in its first place.
template <bool kFlat>
[[gnu::always_inline]] inline BaselineDecoder::BlockEnd BaselineDecoder::decode_block(
    BitReader& bits, Component& part) {
  if (bits.next > latest_) return {};
  BlockReader<kFlat> reader = {bits, 0, 0, part.factors.data(), block_.values, *part.ac};
  reader.bits.refill();
  const DcTable::Difference difference = part.dc->decode(reader.bits.window);
  if (difference.bits == 0) return {};
  reader.bits.drop(difference.bits);
  part.average += difference.value;
  // Far beyond any picture, and no sum overflows.
  if (part.average < -16384 || part.average > 16383) return {};
  const int32_t average = part.average * part.factors[0];
  reader.energy = int64_t{average} * average;
  // After a refill there are bits for five looks, or for a difference and two.
  bool more = reader.step();
  while (more) {
    reader.bits.refill();
    more = reader.step() && reader.step() && reader.step();
  }
  bits = reader.bits;
  block_.values[0] = static_cast<int16_t>(average);
  const bool in_range = reader.at == kLast || reader.at >= AcTable::kEndOfBlock;
  const bool tame = reader.energy <= (kFlat ? kTamestAverage * kTamestAverage : kTamestEnergy);
  return {in_range && tame, reader.at % AcTable::kEndOfBlock};
}

// All blocks that stand for the same pixels.
[[gnu::always_inline]] inline bool BaselineDecoder::decode_unit(BitReader& bits, int32_t column,
                                                                int32_t row) {
  for (int32_t c = 0; c < count_; ++c) {
    Component& part = components_[static_cast<size_t>(c)];
    for (int32_t y = row * part.down; y < (row + 1) * part.down; ++y) {
      for (int32_t x = column * part.across; x < (column + 1) * part.across; ++x) {
        const BlockEnd end =
            part.size == 1 ? decode_block<true>(bits, part) : decode_block<false>(bits, part);
        if (!end.good) return false;
        const bool wanted = x < part.blocks_across && y < part.blocks_down;
        deliver(part, end.last,
                wanted ? part.to + y * part.size * part.stride + x * part.size : nullptr);
      }
    }
  }
  return true;
}

// block_ becomes samples, where it is wanted, and zeros.
void BaselineDecoder::deliver(const Component& part, uint32_t last, uint8_t* to) {
  constexpr uint32_t kLastLow = 9;  // up to here, rows and columns are below four
  if (last > 0 && part.size > 1) {
    if (to != nullptr) shrinker_.add(block_, last <= kLastLow, part.size, to, part.stride);
    std::memset(block_.values, 0, sizeof block_.values);
  } else if (to != nullptr) {
    const uint8_t sample = flat_sample(block_.values[0]);
    for (int32_t n = 0; n < part.size; ++n, to += part.stride) {
      std::memset(to, sample, static_cast<size_t>(part.size));
    }
  }
}

// The units [from, to) of the picture, out of a segment of `length` bytes.
bool BaselineDecoder::decode_units(int32_t from, int32_t to, int32_t per_row, size_t length) {
  std::memset(segment_.data() + length, 0, kPad);
  BitReader bits;
  bits.next = segment_.data();
  latest_ = segment_.data() + length + kAhead;
  for (Component& part : components_) part.average = 0;
  int32_t column = from % per_row;
  int32_t row = from / per_row;
  for (int32_t unit = from; unit < to; ++unit) {
    if (!decode_unit(bits, column, row)) return false;
    if (++column == per_row) {
      column = 0;
      ++row;
    }
  }
  // All of the segment was needed, and no bit more; the last byte may be filled up.
  const auto read = static_cast<size_t>(bits.next - segment_.data()) * 8 - (bits.count & 63);
  return read <= length * 8 && read + 8 > length * 8;
}

bool BaselineDecoder::decode(std::string_view bytes, const BaselineHeader& file,
                             const ImageHeader& header, int32_t divisor, DecodeScratch& scratch,
                             JpegPlanes* out) {
  prepare(file, divisor);
  const BaselineComponent& luma = file.components[0];
  const int32_t per_row = blocks_for(file.width, 1, luma.across);
  const int32_t units = per_row * blocks_for(file.height, 1, luma.down);
  std::array<PlaneShape, 3> shapes;
  std::array<uint8_t*, 3> starts = {};
  for (int32_t c = 0; c < count_; ++c) {
    const auto i = static_cast<size_t>(c);
    shapes[i] = {components_[i].across, components_[i].down, components_[i].size};
  }
  lay_out_planes(header, std::span(shapes).first(static_cast<size_t>(count_)), scratch, out,
                 starts.data());
  for (size_t i = 0; i < static_cast<size_t>(count_); ++i) {
    components_[i].to = starts[i];
    components_[i].stride = out->planes[i].stride;
  }
  const size_t room = bytes.size() - file.scan_at + kPad + kAhead + kStorePad;
  if (segment_.size() < room) segment_.resize(room);
  shrinker_.forget();
  block_ = {};
  size_t at = file.scan_at;
  const int32_t step = file.restart_every > 0 ? file.restart_every : units;
  for (int32_t from = 0; from < units; from += step) {
    const ScanSegment segment = unstuff(bytes, at, segment_.data());
    const bool last = units - from <= step;
    const auto restart = 0xD0 + static_cast<uint32_t>(from / step) % 8;
    if (segment.marker != (last ? 0xD9 : restart)) return false;
    const int32_t to = last ? units : from + step;
    if (!decode_units(from, to, per_row, segment.length)) return false;
    at = segment.marker_at + 2;
    if (last) break;
  }
  shrinker_.flush();
  return true;
}

void lay_out_planes(const ImageHeader& header, std::span<const PlaneShape> shapes,
                    DecodeScratch& scratch, JpegPlanes* out, uint8_t** starts) {
  int64_t most_across = 1;
  int64_t most_down = 1;
  for (const PlaneShape& shape : shapes) {
    most_across = std::max<int64_t>(most_across, shape.across);
    most_down = std::max<int64_t>(most_down, shape.down);
  }
  const auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t groups = up(header.height, most_down * kBlock);
  size_t total = 0;
  std::array<size_t, 3> offsets = {};
  out->count = static_cast<int32_t>(shapes.size());
  for (size_t c = 0; c < shapes.size(); ++c) {
    const PlaneShape& shape = shapes[c];
    Plane& plane = out->planes[c];
    plane.across = int64_t{header.width} * shape.across * shape.block;
    plane.across_per = most_across * kBlock;
    plane.down = int64_t{header.height} * shape.down * shape.block;
    plane.down_per = most_down * kBlock;
    plane.width = static_cast<int32_t>(up(plane.across, plane.across_per));
    plane.height = static_cast<int32_t>(up(plane.down, plane.down_per));
    const int64_t blocks = up(int64_t{header.width} * shape.across, plane.across_per);
    plane.stride = static_cast<ptrdiff_t>(up(blocks * shape.block, 64) * 64);
    offsets[c] = total;
    total += static_cast<size_t>(plane.stride * groups * shape.down * shape.block) + 64;
  }
  if (scratch.plane_bytes.size() < total) scratch.plane_bytes.resize(total);
  for (size_t c = 0; c < shapes.size(); ++c) {
    starts[c] = scratch.plane_bytes.data() + offsets[c];
    out->planes[c].data = starts[c];
  }
}

bool decode_baseline_planes(std::string_view bytes, const ImageHeader& header, int32_t divisor,
                            DecodeScratch& scratch, JpegPlanes* out) {
  const std::optional<BaselineHeader> file = read_baseline_header(bytes);
  if (!file || file->width != header.width || file->height != header.height ||
      file->count != header.channels) {
    return false;
  }
  return scratch.baseline().decode(bytes, *file, header, divisor, scratch, out);
}

}  // namespace overlord::media
