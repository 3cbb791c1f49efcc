// TransformRunner: where one batch of rows meets a user's function, behind one seat of a
// TransformPool: a process of its own, or a thread of Python of this one. Used by one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "overlord/base/status.h"
#include "overlord/runtime/seams.h"
#include "overlord/transport/living_workers.h"
#include "overlord/transport/tokenizer_frames.h"
#include "overlord/transport/transform_frames.h"
#include "overlord/transport/worker_process.h"

namespace overlord::transport {

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

struct TransformProcessSettings {
  WorkerCommand command;
  std::string expected;  // digest of the greeting
  int64_t start_deadline_ns = 120'000'000'000;
  int64_t batch_deadline_ns = 30'000'000'000;
  uint64_t memory_bytes = uint64_t{2} << 30;  // resident; also the most that an answer may have
  int stop_descriptor = -1;                   // not owned; readable: give up with kCancelled
};

struct TransformProcessCounters {
  std::atomic<uint64_t> starts{0};
  std::atomic<uint64_t> failures{0};  // ended over a batch
  std::atomic<uint64_t> recycled{0};  // ended between two, for memory they had not given back
  LivingWorkers living;
};

// One process after another, each killed and reaped before the next is started.
class TransformProcess final : public TransformRunner {
 public:
  TransformProcess(const TransformProcessSettings& settings, TransformProcessCounters& counters)
      : settings_(settings), counters_(counters) {}
  ~TransformProcess() override;

  Status ready() override;
  Result<TransformAnswer> run(const runtime::TextRows& rows) override;

 private:
  Status greet();
  Result<TransformAnswer> exchange(const runtime::TextRows& rows, int64_t deadline_ns);
  Status wait_for_answer(int64_t deadline_ns);
  Result<TransformAnswer> read_answer(size_t rows, int64_t deadline_ns);
  Result<std::string> read_text(uint32_t size_bytes, int64_t deadline_ns);
  Status receive(void* data, size_t size_bytes, int64_t deadline_ns);
  bool over_memory() const;
  std::string finish(int64_t grace_ns);
  Status bury(const Status& failure);
  void recycle_when_large();

  const TransformProcessSettings& settings_;
  TransformProcessCounters& counters_;
  std::unique_ptr<WorkerProcess> process_;
  int64_t looked_ns_ = 0;  // at its memory
};

}  // namespace overlord::transport
