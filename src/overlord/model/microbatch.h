// Microbatch: the record a rank receives (docs/reference/batch.md). Immutable views into pooled
// memory; alive as long as anybody holds them (law 14). Every trainer adapter is a projection of
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/hash.h"
#include "overlord/base/ids.h"
#include "overlord/model/encoder_part.h"
#include "overlord/model/hdp_layer.h"
#include "overlord/model/media_slab.h"
#include "overlord/model/mesh.h"
#include "overlord/model/plan.h"

namespace overlord::model {

// Fields of one slice, shared by all ranks that see the same bytes.
struct Slab {
  std::shared_ptr<const void> holder;
  uint32_t rows = 0;
  uint32_t columns = 0;  // tokens of a row in this slice
  FieldView tokens;
  FieldView targets;
  FieldView loss_weights;
  FieldView positions;
};

// Where documents begin and end in the whole (unsliced) microbatch, flattened over its rows.
struct Boundaries {
  std::vector<int32_t> cu_seqlens;         // real lengths, n + 1
  std::vector<int32_t> cu_seqlens_padded;  // first tokens, and the end; n + 1
  int32_t max_seqlen = 0;
  uint32_t documents = 0;
  uint64_t tokens = 0;         // real tokens of the microbatch
  uint64_t target_tokens = 0;  // loss-carrying tokens, as planned

  OVERLORD_FIELDS(cu_seqlens, cu_seqlens_padded, max_seqlen, documents, tokens, target_tokens)
};

struct LineageRow {
  SampleId id;
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t row = 0;    // bin of the microbatch
  uint32_t flags = 0;  // Segment::flags; kHole: served as padding
  static constexpr uint32_t kHole = 1u << 16;
};

// What all ranks of a bucket share of one microbatch.
struct MicrobatchCore {
  StepIndex step = 0;
  uint32_t index = 0;
  uint32_t count = 0;  // microbatches of the step, for this bucket
  uint64_t step_target_tokens = 0;
  TokenType token_type = TokenType::kInt32;
  WeightType weight_type = WeightType::kFloat32;
  uint32_t context = 0;
  Boundaries boundaries;
  std::vector<LineageRow> lineage;
  std::shared_ptr<const HdpLayer> hdp;  // where slices are dealt; else null
  uint32_t hdp_bin = 0;                 // its share: hdp->shares[hdp_bin]
};

struct Microbatch {
  std::shared_ptr<const MicrobatchCore> core;
  std::shared_ptr<const Slab> slab;  // null: no payload for this rank
  ClientView view;
  Digest digest;  // of the bytes this rank sees; zero unless hashing is on
  std::shared_ptr<const EncoderPart> encoder;  // null: this rank has no part in an encoder
  MediaSlabs media;                            // null: no document of the microbatch has any
  // Media that this rank encodes: `document` of an item is its place in encoder->samples.
  MediaSlabs encoded;
};

using MicrobatchPtr = std::shared_ptr<const Microbatch>;

}  // namespace overlord::model
