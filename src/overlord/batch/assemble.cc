#include "overlord/batch/assemble.h"

#include <algorithm>
#include <cstring>

#include "overlord/base/check.h"
#include "overlord/model/widen.h"

namespace overlord::batch {
namespace {

using model::Segment;
using model::Slicing;
using model::TokenType;
using model::WeightType;

constexpr size_t kAlignment = 64;

size_t token_bytes(TokenType type) {
  switch (type) {
    case TokenType::kUint16:
      return 2;
    case TokenType::kInt32:
      return 4;
    case TokenType::kInt64:
      return 8;
  }
  return 0;
}

size_t weight_bytes(WeightType type) { return type == WeightType::kUint8 ? 1 : 4; }

uint32_t round_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

// Where the four arrays of a slab lie in its buffer.
struct SlabLayout {
  size_t tokens = 0, targets = 0, weights = 0, positions = 0, total = 0;
};

SlabLayout layout_of(const AssembleSpec& spec, uint64_t elements, uint8_t fields) {
  SlabLayout layout;
  const auto place = [&](uint8_t field, size_t width, size_t* offset) {
    *offset = layout.total;
    if (fields & field) {
      layout.total += (elements * width + kAlignment - 1) / kAlignment * kAlignment;
    }
  };
  place(model::kFieldTokens, token_bytes(spec.token_type), &layout.tokens);
  place(model::kFieldTargets, token_bytes(spec.token_type), &layout.targets);
  place(model::kFieldLossWeights, weight_bytes(spec.weight_type), &layout.weights);
  place(model::kFieldPositions, sizeof(int32_t), &layout.positions);
  return layout;
}

MutableSlab acquire_slab(const AssembleSpec& spec, uint64_t elements, uint8_t fields,
                         runtime::BufferPool& pool) {
  const SlabLayout layout = layout_of(spec, elements, fields);
  MutableSlab slab;
  slab.buffer = pool.acquire(std::max<size_t>(layout.total, kAlignment));
  char* base = slab.buffer.data.get();
  OVERLORD_CHECK(base != nullptr, "out of memory for a batch");
  if (fields & model::kFieldTokens) slab.tokens = base + layout.tokens;
  if (fields & model::kFieldTargets) slab.targets = base + layout.targets;
  if (fields & model::kFieldLossWeights) slab.weights = base + layout.weights;
  if (fields & model::kFieldPositions) slab.positions = base + layout.positions;
  return slab;
}

std::shared_ptr<const model::Slab> freeze(const AssembleSpec& spec, MutableSlab slab,
                                          uint64_t elements) {
  auto out = std::make_shared<model::Slab>();
  out->rows = spec.rows;
  out->columns = static_cast<uint32_t>(elements / spec.rows);
  out->holder = slab.buffer.data;
  const uint64_t token_size = elements * token_bytes(spec.token_type);
  if (slab.tokens) out->tokens = {slab.tokens, token_size};
  if (slab.targets) out->targets = {slab.targets, token_size};
  if (slab.weights) out->loss_weights = {slab.weights, elements * weight_bytes(spec.weight_type)};
  if (slab.positions) out->positions = {slab.positions, elements * sizeof(int32_t)};
  return out;
}

// Writes one value type into the slab; T is the trainer's token type.
template <typename T>
class RowWriter {
 public:
  RowWriter(const AssembleSpec& spec, const MutableSlab& slab)
      : spec_(spec),
        tokens_(reinterpret_cast<T*>(slab.tokens)),
        targets_(reinterpret_cast<T*>(slab.targets)),
        weights_(slab.weights),
        positions_(reinterpret_cast<int32_t*>(slab.positions)) {}

  // Nothing of a document here: padding without weight.
  void pad(uint64_t at, uint64_t count) {
    if (count == 0) return;
    const T pad = static_cast<T>(spec_.pad_token);
    if (tokens_) std::fill_n(tokens_ + at, count, pad);
    if (targets_) std::fill_n(targets_ + at, count, pad);
    if (weights_) zero_weights(at, count);
    if (positions_) std::memset(positions_ + at, 0, count * sizeof(int32_t));
  }

  void piece(uint64_t at, const Piece& piece) {
    const SpecialTokens& specials = spec_.specials[piece.segment.id.source];
    if (piece.span.data == nullptr) {
      pad(at, piece.segment.count);
      return;
    }
    const uint32_t count = piece.segment.count;
    if (tokens_) copy_tokens(tokens_ + at, piece, specials, piece.segment.first, count);
    if (targets_) write_targets(at, piece, specials);
    if (weights_) write_weights(at, piece, specials);
    if (positions_) model::number(positions_ + at, count, piece.position);
  }

 private:
  // Tokens [first, first + count) of bos + raw + eod.
  void copy_tokens(T* out, const Piece& piece, const SpecialTokens& specials, uint32_t first,
                   uint32_t count) {
    const uint32_t lead = specials.bos ? 1 : 0;
    uint32_t done = 0;
    if (lead && first == 0 && count > 0) out[done++] = static_cast<T>(*specials.bos);
    const uint32_t raw_first = first + done - lead;
    const uint32_t raw_count =
        std::min(count - done, piece.span.count - std::min(raw_first, piece.span.count));
    model::widen(piece.span, raw_first, raw_count, out + done);
    done += raw_count;
    if (done < count) out[done++] = static_cast<T>(specials.eod.value_or(spec_.pad_token));
    OVERLORD_CHECK(done == count, "a segment asks for tokens its document does not have");
  }

  void write_targets(uint64_t at, const Piece& piece, const SpecialTokens& specials) {
    const Segment& segment = piece.segment;
    const bool continues = (segment.flags & Segment::kContinues) != 0;
    const uint32_t known = continues ? segment.count : segment.count - 1;
    copy_tokens(targets_ + at, piece, specials, segment.first + 1, known);
    if (!continues) targets_[at + known] = static_cast<T>(spec_.pad_token);
  }

  void write_weights(uint64_t at, const Piece& piece, const SpecialTokens& specials) {
    const Segment& segment = piece.segment;
    const bool continues = (segment.flags & Segment::kContinues) != 0;
    const uint32_t known = continues ? segment.count : segment.count - 1;
    if (piece.span.mask == nullptr) {
      one_weights(at, known);
    } else {
      masked_weights(at, piece, specials, known);
    }
    zero_weights(at + known, segment.count - known);
  }

  // The weight at i is that of its target, token first + i + 1. bos and eod carry loss.
  void masked_weights(uint64_t at, const Piece& piece, const SpecialTokens& specials,
                      uint32_t known) {
    const uint32_t lead = specials.bos ? 1 : 0;
    for (uint32_t i = 0; i < known; ++i) {
      const uint32_t raw = piece.segment.first + i + 1 - lead;
      const bool carries = raw >= piece.span.count || piece.span.mask[raw] != 0;
      set_weight(at + i, carries);
    }
  }

  void set_weight(uint64_t at, bool carries) {
    if (spec_.weight_type == WeightType::kUint8) {
      weights_[at] = carries ? 1 : 0;
    } else {
      reinterpret_cast<float*>(weights_)[at] = carries ? 1.0f : 0.0f;
    }
  }

  void one_weights(uint64_t at, uint64_t count) {
    if (spec_.weight_type == WeightType::kUint8) {
      std::memset(weights_ + at, 1, count);
    } else {
      std::fill_n(reinterpret_cast<float*>(weights_) + at, count, 1.0f);
    }
  }

  void zero_weights(uint64_t at, uint64_t count) {
    const size_t width = weight_bytes(spec_.weight_type);
    std::memset(weights_ + at * width, 0, count * width);
  }

  const AssembleSpec& spec_;
  T* tokens_;
  T* targets_;
  char* weights_;
  int32_t* positions_;
};

template <typename T>
void write_rows(const AssembleSpec& spec, std::span<const Piece> pieces, const MutableSlab& slab) {
  RowWriter<T> writer(spec, slab);
  uint64_t at = 0;
  uint32_t row = 0;
  const auto close_row = [&] {
    const uint64_t row_end = uint64_t{row + 1} * spec.context;
    writer.pad(at, row_end - at);
    at = row_end;
    ++row;
  };
  for (const Piece& piece : pieces) {
    while (row < piece.row) close_row();
    writer.piece(at, piece);
    at += piece.segment.count;
    const uint64_t padded = uint64_t{round_up(piece.segment.count, spec.align)};
    const uint64_t room = uint64_t{row + 1} * spec.context - at;
    const uint64_t fill = std::min<uint64_t>(padded - piece.segment.count, room);
    writer.pad(at, fill);
    at += fill;
    OVERLORD_CHECK(at <= uint64_t{row + 1} * spec.context, "a bin holds more than its context");
  }
  while (row < spec.rows) close_row();
}

template <typename T>
void write_fields(const AssembleSpec& spec, std::span<const Piece> pieces,
                  const MutableSlab& slab) {
  // One field after the other: long runs of stores to one place are a fifth faster than four
  // streams in turn, and the documents stay in the cache between the passes.
  const auto write = [&](char* MutableSlab::* field) {
    if (slab.*field == nullptr) return;
    MutableSlab only;
    only.*field = slab.*field;
    write_rows<T>(spec, pieces, only);
  };
  write(&MutableSlab::tokens);
  write(&MutableSlab::targets);
  write(&MutableSlab::weights);
  write(&MutableSlab::positions);
}

void write_whole(const AssembleSpec& spec, std::span<const Piece> pieces, const MutableSlab& slab) {
  switch (spec.token_type) {
    case TokenType::kUint16:
      return write_fields<uint16_t>(spec, pieces, slab);
    case TokenType::kInt32:
      return write_fields<int32_t>(spec, pieces, slab);
    case TokenType::kInt64:
      return write_fields<int64_t>(spec, pieces, slab);
  }
}

void gather(const char* from, char* to, size_t width, std::span<const TokenRange> ranges) {
  if (from == nullptr || to == nullptr) return;
  for (const TokenRange& range : ranges) {
    const size_t size = (range.end - range.begin) * width;
    std::memcpy(to, from + range.begin * width, size);
    to += size;
  }
}

// Rank r of n takes chunks r and 2n - 1 - r of [begin, end), cut into 2n equal chunks.
void zigzag(uint32_t begin, uint32_t end, uint32_t slice, uint32_t slices,
            std::vector<TokenRange>* out) {
  const uint32_t chunk = (end - begin) / (2 * slices);
  OVERLORD_CHECK(chunk * 2 * slices == end - begin, "zig-zag needs a multiple of 2 x cp");
  const uint32_t late = 2 * slices - 1 - slice;
  out->push_back({begin + slice * chunk, begin + (slice + 1) * chunk});
  out->push_back({begin + late * chunk, begin + (late + 1) * chunk});
}

}  // namespace

void fill_core(const AssembleSpec& spec, std::span<const Piece> pieces,
               model::MicrobatchCore* core) {
  model::Boundaries& bounds = core->boundaries;
  bounds.cu_seqlens.assign(1, 0);
  bounds.cu_seqlens_padded.clear();
  core->lineage.reserve(pieces.size());
  size_t next = 0;
  for (uint32_t row = 0; row < spec.rows; ++row) {
    uint32_t at = row * spec.context;
    if (next == pieces.size() || pieces[next].row != row) {  // an empty bin is one empty document
      bounds.cu_seqlens_padded.push_back(static_cast<int32_t>(at));
      bounds.cu_seqlens.push_back(bounds.cu_seqlens.back());
    }
    for (; next < pieces.size() && pieces[next].row == row; ++next) {
      const Piece& piece = pieces[next];
      const Segment& segment = piece.segment;
      bounds.cu_seqlens_padded.push_back(static_cast<int32_t>(at));
      bounds.cu_seqlens.push_back(bounds.cu_seqlens.back() + static_cast<int32_t>(segment.count));
      bounds.max_seqlen = std::max(bounds.max_seqlen, static_cast<int32_t>(segment.count));
      bounds.tokens += segment.count;
      bounds.target_tokens += segment.targets;
      ++bounds.documents;
      at += round_up(segment.count, spec.align);
      core->lineage.push_back({segment.id, segment.first, segment.count, row, segment.flags});
    }
  }
  bounds.cu_seqlens_padded.push_back(static_cast<int32_t>(spec.rows * spec.context));
}

MutableSlab fill_whole(const AssembleSpec& spec, std::span<const Piece> pieces, uint8_t fields,
                       runtime::BufferPool& pool) {
  MutableSlab whole = acquire_slab(spec, uint64_t{spec.rows} * spec.context, fields, pool);
  write_whole(spec, pieces, whole);
  return whole;
}

std::vector<std::shared_ptr<const model::Slab>> cut_slabs(const AssembleSpec& spec,
                                                          const model::MicrobatchCore& core,
                                                          MutableSlab whole, uint8_t fields,
                                                          const std::vector<bool>& slices_wanted,
                                                          runtime::BufferPool& pool) {
  const uint64_t elements = uint64_t{spec.rows} * spec.context;
  std::vector<std::shared_ptr<const model::Slab>> slabs(slices_wanted.size());
  if (spec.slices == 1) {
    if (!(fields & model::kFieldTokens)) whole.tokens = nullptr;
    if (!(fields & model::kFieldTargets)) whole.targets = nullptr;
    if (!(fields & model::kFieldLossWeights)) whole.weights = nullptr;
    if (!(fields & model::kFieldPositions)) whole.positions = nullptr;
    slabs[0] = freeze(spec, std::move(whole), elements);
    return slabs;
  }
  const size_t token_width = token_bytes(spec.token_type);
  for (uint32_t slice = 0; slice < spec.slices; ++slice) {
    if (!slices_wanted[slice]) continue;
    const std::vector<TokenRange> ranges = slice_ranges(spec, core.boundaries, slice);
    MutableSlab part = acquire_slab(spec, elements / spec.slices, fields, pool);
    gather(whole.tokens, part.tokens, token_width, ranges);
    gather(whole.targets, part.targets, token_width, ranges);
    gather(whole.weights, part.weights, weight_bytes(spec.weight_type), ranges);
    gather(whole.positions, part.positions, sizeof(int32_t), ranges);
    slabs[slice] = freeze(spec, std::move(part), elements / spec.slices);
  }
  return slabs;
}

Digest batch_digest(const model::MicrobatchCore& core, const model::Slab* slab, uint8_t fields) {
  const auto ints = [](const std::vector<int32_t>& values) {
    return digest_of(values.data(), values.size() * sizeof(int32_t));
  };
  Digest digest;
  if (fields & model::kFieldBoundaries) {
    digest = chain(ints(core.boundaries.cu_seqlens), ints(core.boundaries.cu_seqlens_padded));
  }
  const auto add = [&](uint8_t field, const model::FieldView& view) {
    if ((fields & field) && slab) digest = chain(digest, digest_of(view.data, view.size_bytes));
  };
  if (slab != nullptr) {
    add(model::kFieldTokens, slab->tokens);
    add(model::kFieldTargets, slab->targets);
    add(model::kFieldLossWeights, slab->loss_weights);
    add(model::kFieldPositions, slab->positions);
  }
  const uint64_t numbers[2] = {core.boundaries.target_tokens, core.step_target_tokens};
  return chain(digest, digest_of(numbers, sizeof numbers));
}

std::vector<TokenRange> slice_ranges(const AssembleSpec& spec, const model::Boundaries& boundaries,
                                     uint32_t slice) {
  std::vector<TokenRange> ranges;
  if (spec.slicing == Slicing::kDocumentZigzag) {
    const std::vector<int32_t>& starts = boundaries.cu_seqlens_padded;
    for (size_t i = 0; i + 1 < starts.size(); ++i) {
      zigzag(static_cast<uint32_t>(starts[i]), static_cast<uint32_t>(starts[i + 1]), slice,
             spec.slices, &ranges);
    }
    return ranges;
  }
  for (uint32_t row = 0; row < spec.rows; ++row) {
    const uint32_t begin = row * spec.context;
    if (spec.slicing == Slicing::kContiguous) {
      const uint32_t width = spec.context / spec.slices;
      ranges.push_back({begin + slice * width, begin + (slice + 1) * width});
    } else {
      zigzag(begin, begin + spec.context, slice, spec.slices, &ranges);
    }
  }
  return ranges;
}

uint64_t slab_bytes(const AssembleSpec& spec, uint8_t fields) {
  return layout_of(spec, uint64_t{spec.rows} * spec.context, fields).total;
}

}  // namespace overlord::batch
