// ConstructorProbe: counters of one data-parallel group, readable from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "overlord/base/counts.h"
#include "overlord/runtime/held_bytes.h"

namespace overlord::constructor {

// What the packed media of one source cost whoever unpacks them.
template <template <typename> typename Cell>
struct UnpackCounts {
  Cell<uint64_t> blobs{0};
  Cell<uint64_t> unpack_ns{0};
  Cell<uint64_t> in_bytes{0}, out_bytes{0};

  OVERLORD_FIELDS(blobs, unpack_ns, in_bytes, out_bytes)
};

struct UnpackProbe : UnpackCounts<std::atomic> {
  const runtime::HeldBytesPtr held = std::make_shared<runtime::HeldBytes>();  // unpacked
};

template <template <typename> typename Cell>
struct ConstructorCounts {
  Cell<uint64_t> steps_ready{0};  // assembled so far
  Cell<uint64_t> steps_held{0};   // fetching, assembling or waiting for clients, now
  Cell<uint64_t> payloads{0};
  Cell<uint64_t> assemble_ns{0};
  Cell<uint64_t> bytes_assembled{0};

  OVERLORD_FIELDS(steps_ready, steps_held, payloads, assemble_ns, bytes_assembled)
};

struct ConstructorProbe : ConstructorCounts<std::atomic> {
  explicit ConstructorProbe(size_t sources = 0) : unpacking(sources) {}

  std::vector<UnpackProbe> unpacking;  // by source; never resized
};

}  // namespace overlord::constructor
