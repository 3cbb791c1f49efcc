// Unpacking: packed media of a step (blobs as they are stored) decoded and transformed on the CPU
// pool, before its microbatches are laid out. The same chains that loaders run elsewhere, so the
// bytes are the same.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/media/field_chain.h"
#include "overlord/model/media_slab.h"
#include "overlord/roles/constructor/probe.h"
#include "overlord/runtime/buffer.h"
#include "overlord/runtime/seams.h"

namespace overlord::constructor {

// By source, by number in the job's list of delivered fields; null: that source has no such field.
using MediaChains = std::vector<std::vector<media::FieldChainPtr>>;

struct PackedPiece {
  const model::MediaPiece* piece = nullptr;
  SourceIndex source = 0;
};

struct UnpackingSeams {
  runtime::Executor* executor = nullptr;
  runtime::Clock* clock = nullptr;
  std::shared_ptr<runtime::BufferPool> pool;
  std::shared_ptr<const MediaChains> chains;
  std::shared_ptr<ConstructorProbe> probe;                            // to count in, by source
  std::shared_ptr<const std::vector<std::string>> sources = nullptr;  // their names, for a trace
};

// One answer per piece, in their order: its rows, kBadData for what does not decode, or what keeps
// this process from decoding at all. `done` is called on the pool, once. What the pieces point to
// stays alive until then.
void unpack(const UnpackingSeams& seams, StepIndex step, std::vector<PackedPiece> pieces,
            std::function<void(std::vector<Result<runtime::Bytes>>)> done);

}  // namespace overlord::constructor
