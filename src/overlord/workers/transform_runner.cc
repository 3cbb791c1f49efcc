#include "overlord/workers/transform_runner.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "overlord/runtime/steady_clock.h"
#include "overlord/workers/tokenizer_worker.h"
#include "overlord/workers/worker_rules.h"

namespace overlord::workers {
namespace {

using runtime::steady_now_ns;

constexpr int64_t kLookEveryNs = 100 * kMillisecond;  // at the memory of a worker

std::string seconds(int64_t ns) {
  const int64_t tenths = ns / (100 * kMillisecond);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

int64_t left_ns(int64_t deadline_ns) { return std::max<int64_t>(deadline_ns - steady_now_ns(), 0); }

}  // namespace

Status ready_in_tries(TransformRunner& runner) {
  Status status;
  for (int i = 0; i < kTries; ++i) {
    status = runner.ready();
    if (status.code() != Code::kUnavailable) return status;
  }
  return {Code::kUserFunction, status.message()};
}

void TransformProcess::leave() {
  if (process_ != nullptr) process_->finish(kLeaveGraceNs);
  process_.reset();
}

Status TransformProcess::ready() {
  if (process_ != nullptr) return {};
  OVERLORD_TRY(process_,
               WorkerProcess::start(workers_->command, workers_->stop.get(), workers_->living));
  const Status greeted = greet();
  if (greeted.ok()) return {};
  if (may_go_better(greeted.code())) return bury(greeted);
  leave();
  return greeted;
}

Status TransformProcess::greet() {
  OVERLORD_TRY(const TokenizerGreeting greeting,
               receive_greeting(*process_, workers_->start_deadline_ns,
                                Status(Code::kUserFunction, "its worker cannot start: ")));
  if (greeting.digest == workers_->expected) return {};
  return {Code::kStateMismatch, "a worker found " + greeting.digest +
                                    ", the job was started with " + workers_->expected +
                                    "; start it again with the version it should have"};
}

Result<TransformAnswer> TransformProcess::run(const runtime::TextRows& rows) {
  const int64_t deadline_ns = steady_now_ns() + workers_->batch_deadline_ns;
  Result<TransformAnswer> answer = exchange(rows, deadline_ns);
  if (answer.ok()) {
    recycle_when_large();
    return answer;
  }
  if (may_go_better(answer.status().code())) return bury(answer.status());
  return answer;
}

Result<TransformAnswer> TransformProcess::exchange(const runtime::TextRows& rows,
                                                   int64_t deadline_ns) {
  const std::string head = tokenizer_request_head(rows);
  const std::array<std::string_view, 3> pieces = {head, bytes_of(rows.ends), rows.bytes};
  OVERLORD_RETURN_IF_ERROR(process_->send(pieces, workers_->batch_deadline_ns));
  OVERLORD_RETURN_IF_ERROR(wait_for_answer(deadline_ns));
  return read_answer(rows.rows(), deadline_ns);
}

// Looks at the worker's memory now and then, so that one that eats without end is ended in time.
Status TransformProcess::wait_for_answer(int64_t deadline_ns) {
  while (true) {
    const int64_t now_ns = steady_now_ns();
    if (now_ns >= deadline_ns) {
      return {Code::kDeadline,
              "did not answer within its deadline of " + seconds(workers_->batch_deadline_ns)};
    }
    const Status readable = process_->wait_readable(std::min(now_ns + kLookEveryNs, deadline_ns));
    if (readable.code() != Code::kDeadline) return readable;
    if (over_memory()) {
      return {Code::kResource, "used more than its limit of " +
                                   std::to_string(workers_->memory_bytes >> 20) + " MiB of memory"};
    }
  }
}

Result<TransformAnswer> TransformProcess::read_answer(size_t rows, int64_t deadline_ns) {
  OVERLORD_TRY(const TokenizerFrameHead head, receive_head(*process_, left_ns(deadline_ns)));
  if (head.kind == TokenizerFrame::kError) {
    OVERLORD_TRY(const std::string text, receive_text(*process_, head.count, left_ns(deadline_ns)));
    return Status(Code::kUserFunction, text);
  }
  if (head.kind != TokenizerFrame::kRows || head.count != rows) {
    return Status(Code::kUnavailable, "sent garbage: an answer to something else");
  }
  std::array<char, kTransformSizesBytes> told;
  OVERLORD_RETURN_IF_ERROR(receive(told.data(), told.size(), deadline_ns));
  const auto sizes = parse_transform_sizes({told.data(), told.size()}, workers_->memory_bytes);
  if (!sizes.ok()) return as_garbage(sizes.status());
  TransformAnswer answer;
  answer.kinds.resize(rows);
  answer.sizes.resize(rows);
  answer.text.resize(sizes->bytes);
  answer.tokens.resize(sizes->tokens);
  OVERLORD_RETURN_IF_ERROR(receive(answer.kinds.data(), rows, deadline_ns));
  OVERLORD_RETURN_IF_ERROR(receive(answer.sizes.data(), rows * sizeof(uint32_t), deadline_ns));
  OVERLORD_RETURN_IF_ERROR(receive(answer.text.data(), sizes->bytes, deadline_ns));
  OVERLORD_RETURN_IF_ERROR(
      receive(answer.tokens.data(), sizes->tokens * sizeof(int32_t), deadline_ns));
  OVERLORD_RETURN_IF_ERROR(as_garbage(check_transform_answer(answer)));
  return answer;
}

Status TransformProcess::receive(void* data, size_t size_bytes, int64_t deadline_ns) {
  return process_->receive(data, size_bytes, left_ns(deadline_ns));
}

bool TransformProcess::over_memory() const {
  return resident_bytes(process_->pid()) > workers_->memory_bytes;
}

// Ends the failed process and tells its story.
Status TransformProcess::bury(const Status& failure) {
  const bool dying = failure.code() == Code::kUnavailable;
  std::string story = "its worker " + failure.message();
  story += "; its end: " + process_->finish(dying ? kDeathGraceNs : 0);
  const std::string words = process_->last_words();
  if (!words.empty()) story += "; last lines on stderr: " + words;
  process_.reset();
  return {Code::kUnavailable, story};
}

// What leaks a little with every batch is nobody's fault: the next batch gets a fresh process.
void TransformProcess::recycle_when_large() {
  const int64_t now_ns = steady_now_ns();
  if (now_ns - looked_ns_ < kLookEveryNs) return;
  looked_ns_ = now_ns;
  if (over_memory()) leave();
}

}  // namespace overlord::workers
