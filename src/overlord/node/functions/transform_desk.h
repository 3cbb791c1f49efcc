// TransformDesk: where transforms of lane thread leave their batches and threads of Python take
// them, call the function and answer. A caller waits, with a deadline; a function that never
// returns ends the stream and not the process.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/handoff.h"
#include "overlord/runtime/seams.h"
#include "overlord/workers/transform_runner.h"

namespace overlord::node {

class TransformDesk {
 public:
  struct Question {
    uint64_t number = 0;
    std::string function;  // model::Transform::key()
    runtime::TextRows rows;
    bool binary = false;  // rows of bytes that are no text
  };

  // Blocks until somebody has answered. The answer as workers/transform_frames.h has it.
  // kCancelled: closed; kDeadline: nobody has.
  Result<std::string> ask(const std::string& function, const runtime::TextRows& rows,
                          int64_t deadline_ns, bool binary = false);

  // The next batch; nothing when none came in time, or when the desk is closed.
  std::optional<Question> take(int64_t timeout_ms) { return questions_.pop(timeout_ms); }
  // Answers that nobody waits for any more are dropped.
  void answer(uint64_t number, Result<std::string> bytes);
  // Everybody who waits is told; idempotent.
  void close();
  bool closed() const { return questions_.closed(); }

 private:
  runtime::Handoff<Question> questions_;
  std::mutex mutex_;
  std::condition_variable answered_;
  std::map<uint64_t, std::optional<Result<std::string>>> waiting_ OVERLORD_GUARDED_BY(mutex_);
  uint64_t asked_ OVERLORD_GUARDED_BY(mutex_) = 0;
  bool closed_ OVERLORD_GUARDED_BY(mutex_) = false;
};

// A seat of a TransformPool whose calls are made by threads of Python.
class DeskRunner final : public workers::TransformRunner {
 public:
  DeskRunner(std::shared_ptr<TransformDesk> desk, std::string function, int64_t deadline_ns,
             bool binary = false)
      : desk_(std::move(desk)),
        function_(std::move(function)),
        deadline_ns_(deadline_ns),
        binary_(binary) {}
  Status ready() override { return {}; }
  Result<workers::TransformAnswer> run(const runtime::TextRows& rows) override;

 private:
  std::shared_ptr<TransformDesk> desk_;
  std::string function_;
  int64_t deadline_ns_;
  bool binary_;
};

}  // namespace overlord::node
