// TransformRunner: where one batch of rows meets a user's function, behind one seat of a
// TransformPool: a process of its own, or a thread of Python of this one. Used by one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "overlord/base/status.h"
#include "overlord/runtime/seams.h"
#include "overlord/workers/living_workers.h"
#include "overlord/workers/tokenizer_frames.h"
#include "overlord/workers/transform_frames.h"
#include "overlord/workers/worker_process.h"

namespace overlord::workers {

class TransformRunner {
 public:
  virtual ~TransformRunner() = default;
  // Ready for a batch: the worker stands and says it is the right one. kUnavailable may go better
  // the next time, everything else is final.
  virtual Status ready() = 0;
  // kUnavailable: whoever ran it died, hung, ate too much memory or sent garbage, and is gone; the
  // message says which. Everything else is final.
  virtual Result<TransformAnswer> run(const runtime::TextRows& rows) = 0;
};

// A process that does not come up gets its tries; then the function has no worker.
Status ready_in_tries(TransformRunner& runner);

// Which calls of a pool are made twice: the first, and one in so many, whose key says so: the same
// ones wherever they are made. Any thread.
class CallSample {
 public:
  explicit CallSample(uint32_t every) : every_(every) {}  // 0: none
  bool takes(uint64_t key) {
    if (every_ == 0) return false;
    if (key % every_ == 0) return ++taken_ > 0;
    uint64_t none = 0;
    return taken_.compare_exchange_strong(none, 1);
  }
  uint64_t taken() const { return taken_; }

 private:
  const uint32_t every_;
  std::atomic<uint64_t> taken_{0};
};

// What the processes of one pool share; goes with the last of them.
struct TransformWorkers {
  WorkerCommand command;
  std::string expected;  // digest of the greeting
  int64_t start_deadline_ns = 120'000'000'000;
  int64_t batch_deadline_ns = 30'000'000'000;
  uint64_t memory_bytes = uint64_t{2} << 30;  // resident; also the most that an answer may have
  runtime::Descriptor stop;                   // readable: give up with kCancelled
  LivingWorkers living;
};

// One process after another, each killed and reaped before the next is started.
class TransformProcess final : public TransformRunner {
 public:
  explicit TransformProcess(std::shared_ptr<TransformWorkers> workers)
      : workers_(std::move(workers)) {}
  ~TransformProcess() override { leave(); }

  Status ready() override;
  Result<TransformAnswer> run(const runtime::TextRows& rows) override;

 private:
  Status greet();
  Result<TransformAnswer> exchange(const runtime::TextRows& rows, int64_t deadline_ns);
  Status wait_for_answer(int64_t deadline_ns);
  Result<TransformAnswer> read_answer(size_t rows, int64_t deadline_ns);
  Status receive(void* data, size_t size_bytes, int64_t deadline_ns);
  bool over_memory() const;
  void leave();
  Status bury(const Status& failure);
  void recycle_when_large();

  std::shared_ptr<TransformWorkers> workers_;
  std::unique_ptr<WorkerProcess> process_;
  int64_t looked_ns_ = 0;  // at its memory
};

}  // namespace overlord::workers
