// ConstructorProbe: counters of one data-parallel group, readable from any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace overlord::constructor {

struct ConstructorProbe {
  std::atomic<uint64_t> steps_ready{0};  // assembled so far
  std::atomic<uint64_t> steps_held{0};   // fetching, assembling or waiting for clients, now
  std::atomic<uint64_t> payloads{0};
  std::atomic<uint64_t> assemble_ns{0};
  std::atomic<uint64_t> bytes_assembled{0};
};

}  // namespace overlord::constructor
