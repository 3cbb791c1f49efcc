// Assembly: segments of documents into the arrays of a microbatch. The one place where tokens are
// copied: widened, shifted into targets, weighted and numbered, one array after the other.
// Plain functions on a CPU thread; memory comes from the pool given in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/mesh.h"
#include "overlord/model/microbatch.h"
#include "overlord/model/plan.h"
#include "overlord/model/token_span.h"
#include "overlord/runtime/buffer.h"

namespace overlord::batch {

struct SpecialTokens {  // of one source
  std::optional<uint32_t> bos;
  std::optional<uint32_t> eod;
};

struct AssembleSpec {
  uint32_t context = 0;
  uint32_t rows = 1;  // bins of a microbatch
  uint32_t align = 1;
  uint32_t pad_token = 0;
  model::TokenType token_type = model::TokenType::kInt32;
  model::WeightType weight_type = model::WeightType::kFloat32;
  model::Slicing slicing = model::Slicing::kSequenceZigzag;
  uint32_t slices = 1;
  std::vector<SpecialTokens> specials;  // by source
};

// One document piece of a microbatch: where it goes and where its tokens are.
struct Piece {
  model::Segment segment;
  uint32_t row = 0;
  model::TokenSpan span;
  uint32_t position = 0;  // of its first token; above 0 in a slice of what selection chose
};

// Boundaries and lineage; needs no payload. Pieces are in row order.
void fill_core(const AssembleSpec& spec, std::span<const Piece> pieces,
               model::MicrobatchCore* core);

// Arrays in memory that nobody else has seen yet: they may still be written.
struct MutableSlab {
  runtime::Buffer buffer;
  char* tokens = nullptr;
  char* targets = nullptr;
  char* weights = nullptr;
  char* positions = nullptr;
};

// The payload fields of the whole microbatch.
MutableSlab fill_whole(const AssembleSpec& spec, std::span<const Piece> pieces, uint8_t fields,
                       runtime::BufferPool& pool);

// The slices that are wanted of it, with those of its arrays that `fields` names.
std::vector<std::shared_ptr<const model::Slab>> cut_slabs(const AssembleSpec& spec,
                                                          const model::MicrobatchCore& core,
                                                          MutableSlab whole, uint8_t fields,
                                                          const std::vector<bool>& slices_wanted,
                                                          runtime::BufferPool& pool);

// Digest of exactly the bytes a rank with `fields` sees.
Digest batch_digest(const model::MicrobatchCore& core, const model::Slab* slab, uint8_t fields);

// Ranges [begin, end) of the unsliced microbatch that slice `slice` holds, in order.
struct TokenRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};
std::vector<TokenRange> slice_ranges(const AssembleSpec& spec, const model::Boundaries& boundaries,
                                     uint32_t slice);

uint64_t slab_bytes(const AssembleSpec& spec, uint8_t fields);

}  // namespace overlord::batch
