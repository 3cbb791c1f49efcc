// ByteEncoder: the tokenizer of kind `bytes`; every byte of a row is one token, 0 to 255.
// Works and calls back on the given Executor, so it is as deterministic as that is (the simulator
// uses it). Owned by the node. It never calls back on the caller's stack and never fails a
// well-formed batch; an Executor that was shut down destroys `done` uncalled.
#pragma once

#include "overlord/runtime/seams.h"

namespace overlord::runtime {

class ByteEncoder final : public TextEncoder {
 public:
  // `executor` outlives the encoder; batches posted to it do not need the encoder any more.
  explicit ByteEncoder(Executor& executor) : executor_(executor) {}

  void encode(TextRows rows, CancelToken cancel, EncodeDone done) override;

 private:
  Executor& executor_;
};

}  // namespace overlord::runtime
