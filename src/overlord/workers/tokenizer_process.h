// TokenizerPool: text to tokens in worker processes, one thread of ours per process, one bounded
// queue before them. Processes start with the first batch that needs them, warm ones are used
// first. Owned by the node. It never blocks encode(), never calls back on the caller's stack, never
// calls back twice or not at all, and leaves neither process, thread nor descriptor behind. One
// vocabulary: a process whose greeting has another digest than the first is refused, whenever it
// starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/descriptor.h"
#include "overlord/runtime/encoder_costs.h"
#include "overlord/runtime/seams.h"
#include "overlord/workers/seat_pool.h"
#include "overlord/workers/tokenizer_frames.h"
#include "overlord/workers/tokenizer_worker.h"

namespace overlord::workers {

struct TokenizerPoolOptions {
  std::vector<std::string> argv;         // argv[0] is looked up in PATH
  std::vector<std::string> environment;  // NAME=value, over ours as it is when the pool is made
  size_t workers = 1;
  std::string expected_digest;  // of the greeting; empty: whatever the first worker says
  uint64_t template_bytes = 0;  // of a chat template: a row has so many tokens more than its text
  int64_t start_deadline_ns = 120'000'000'000;
  int64_t progress_deadline_ns = 60'000'000'000;
  uint64_t queue_limit_bytes = uint64_t{64} << 20;  // of text; one batch always fits
  size_t queue_limit_batches = 1024;
};

struct TokenizerPoolStats {
  uint64_t queued = 0;  // batches waiting for a worker
  uint64_t queued_bytes = 0;
  uint64_t refused = 0;   // batches answered with kResource because the queue was full
  uint64_t encoded = 0;   // batches
  uint64_t failed = 0;    // batches, cancelled ones not counted
  uint64_t tokens = 0;    // made of them
  uint64_t starts = 0;    // processes
  uint64_t failures = 0;  // processes that died, hung or sent garbage over a batch
};

class TokenizerPool final : public runtime::TextEncoder, public runtime::EncoderCosts {
 public:
  // kInvalidArgument for options that cannot work, kResource without threads or descriptors. No
  // process is started yet.
  static Result<std::unique_ptr<TokenizerPool>> make(TokenizerPoolOptions options);

  // Every batch not yet answered is answered with kCancelled, the queued ones from this thread.
  // Not from a callback of the pool.
  ~TokenizerPool() override;
  TokenizerPool(const TokenizerPool&) = delete;
  TokenizerPool& operator=(const TokenizerPool&) = delete;

  // kBadData: the worker refused the batch, with its message. kUnavailable: two workers failed over
  // it. kStateMismatch: another tokenizer than expected. kResource: the queue is full, send less.
  // A token outside the greeting's vocab_size counts as a failure of the worker.
  void encode(runtime::TextRows rows, runtime::CancelToken cancel,
              runtime::EncodeDone done) override;

  // What the workers say of themselves. Blocking, for start-up only: it starts a process when none
  // has spoken yet.
  Result<TokenizerGreeting> greeting();

  TokenizerPoolStats stats() const;
  uint64_t worker_bytes() const override { return counters_.living.resident_bytes(); }

 private:
  struct Request {
    runtime::TextRows rows;
    runtime::CancelToken cancel;
    runtime::EncodeDone done;                                // a batch, or else
    std::function<void(Result<TokenizerGreeting>)> greeted;  // a question for the greeting
    Status refusal;                                          // not ok: the answer is known
  };

  explicit TokenizerPool(TokenizerPoolOptions options);
  Status start();
  Status admit(const TokenizerGreeting& greeting);
  void submit(Request request);
  void serve(TokenizerWorker* worker, Request request);

  const TokenizerPoolOptions options_;
  TokenizerWorkerSettings settings_;
  TokenizerWorkerCounters counters_;

  mutable std::mutex mutex_;
  std::optional<TokenizerGreeting> agreed_ OVERLORD_GUARDED_BY(mutex_);
  TokenizerPoolStats stats_ OVERLORD_GUARDED_BY(mutex_);

  runtime::Descriptor stop_;                  // an eventfd, readable from the beginning of the end
  SeatPool<TokenizerWorker, Request> seats_;  // last: its threads use all of the above
};

}  // namespace overlord::workers
