#include "overlord/node/functions/transform_desk.h"

#include <chrono>

#include "overlord/base/guarded_by.h"

namespace overlord::node {

Result<std::string> TransformDesk::ask(const std::string& function, const runtime::TextRows& rows,
                                       int64_t deadline_ns, bool binary) {
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  const Status ended(Code::kCancelled, "the engine was closed");
  if (closed_) return ended;
  const uint64_t number = ++asked_;
  waiting_[number] = std::nullopt;
  questions_.push({number, function, rows, binary});
  answered_.wait_for(lock, std::chrono::nanoseconds(deadline_ns), [&]() OVERLORD_REQUIRES(mutex_) {
    return closed_ || waiting_[number].has_value();
  });
  std::optional<Result<std::string>> answer = std::move(waiting_[number]);
  waiting_.erase(number);
  if (answer) return std::move(*answer);
  if (closed_) return ended;
  return Status(Code::kDeadline, "nobody answered");
}

void TransformDesk::answer(uint64_t number, Result<std::string> bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) return;
    found->second = std::move(bytes);
  }
  answered_.notify_all();
}

void TransformDesk::close() {
  questions_.close();
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  answered_.notify_all();
}

Result<workers::TransformAnswer> DeskRunner::run(const runtime::TextRows& rows) {
  const Result<std::string> bytes = desk_->ask(function_, rows, deadline_ns_, binary_);
  if (bytes.ok()) return workers::parse_transform_answer(*bytes, rows.rows());
  if (bytes.status().code() != Code::kDeadline) return bytes.status();
  // A thread cannot be ended: who it waits for cannot be found out either.
  return Status(Code::kUserFunction,
                "did not answer within " + std::to_string(deadline_ns_ / 1'000'000) +
                    " ms on its thread, which cannot be ended; use lane=\"process\", or raise "
                    "the transform's deadline_seconds");
}

}  // namespace overlord::node
