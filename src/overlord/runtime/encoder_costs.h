// EncoderCosts: what an encoder of text, or a part of it, costs beside the time that it tells with
// every batch. Implemented by those that run processes or users' code. Any thread.
#pragma once

#include <cstdint>

namespace overlord::runtime {

class EncoderCosts {
 public:
  virtual ~EncoderCosts() = default;
  // Resident memory of its processes, now.
  virtual uint64_t worker_bytes() const = 0;
  // Time spent in users' own code so far, of the time that its batches took.
  virtual uint64_t python_ns() const { return 0; }
};

}  // namespace overlord::runtime
