// BatchPool: a users' function over whole microbatches, in several seats at once. A call that
// raises, gives what may not be given, kills, hangs or bloats whoever runs it is made once more by
// a fresh one; then it has failed, which ends the stream. One call in so many is made twice, and
// both must agree. Owned by the node; one thread per seat, started with the first call. It never
// blocks apply(), calls back exactly once and leaves nothing behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "overlord/base/status.h"
#include "overlord/runtime/batch_transform.h"
#include "overlord/workers/seat_pool.h"
#include "overlord/workers/transform_runner.h"

namespace overlord::workers {

struct BatchPoolOptions {
  std::string function;  // module:name, for messages
  size_t workers = 1;
  uint32_t check_every = 0;  // 0: no call is made twice
  uint64_t vocabulary = 0;   // ids are below it; 0: not checked
  std::function<std::unique_ptr<TransformRunner>()> make_runner;
  // Whoever runs a call gives up; called first when the pool ends. May be empty.
  std::function<void()> stop = {};
};

class BatchPool final : public runtime::BatchTransform {
 public:
  static Result<std::unique_ptr<BatchPool>> make(BatchPoolOptions options);
  // Everything not yet answered is answered with kCancelled. Not from a callback of the pool.
  ~BatchPool() override { seats_.end(options_.stop); }
  BatchPool(const BatchPool&) = delete;
  BatchPool& operator=(const BatchPool&) = delete;

  // kUserFunction: says what went wrong, where and in which function.
  void apply(runtime::BatchQuestion question, runtime::BatchDone done) override;

 private:
  struct Task {
    runtime::BatchQuestion question;
    runtime::BatchDone done;
    std::optional<runtime::BatchAnswer> first;  // the call is made again to compare
  };
  using Seat = std::unique_ptr<TransformRunner>;

  explicit BatchPool(BatchPoolOptions options);
  void carry_out(Seat& seat, Task task);
  Result<runtime::BatchAnswer> solve(Seat& seat, const runtime::BatchQuestion& question);
  Result<runtime::BatchAnswer> call(TransformRunner& runner,
                                    const runtime::BatchQuestion& question) const;
  Result<runtime::BatchAnswer> compared(const runtime::BatchQuestion& question,
                                        runtime::BatchAnswer first,
                                        Result<runtime::BatchAnswer> second) const;
  Status named(const runtime::BatchQuestion& question, const Status& status) const;

  const BatchPoolOptions options_;
  CallSample sample_;
  SeatPool<TransformRunner, Task> seats_;  // last: its threads use all of the above
};

}  // namespace overlord::workers
