// ConstructorProbe: counters of one data-parallel group, readable from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "overlord/runtime/held_bytes.h"

namespace overlord::constructor {

// What the packed media of one source cost whoever unpacks them.
struct UnpackProbe {
  std::atomic<uint64_t> blobs{0};
  std::atomic<uint64_t> unpack_ns{0};
  std::atomic<uint64_t> in_bytes{0}, out_bytes{0};
  const runtime::HeldBytesPtr held = std::make_shared<runtime::HeldBytes>();  // unpacked
};

struct ConstructorProbe {
  explicit ConstructorProbe(size_t sources = 0) : unpacking(sources) {}

  std::atomic<uint64_t> steps_ready{0};  // assembled so far
  std::atomic<uint64_t> steps_held{0};   // fetching, assembling or waiting for clients, now
  std::atomic<uint64_t> payloads{0};
  std::atomic<uint64_t> assemble_ns{0};
  std::atomic<uint64_t> bytes_assembled{0};
  std::vector<UnpackProbe> unpacking;  // by source; never resized
};

}  // namespace overlord::constructor
