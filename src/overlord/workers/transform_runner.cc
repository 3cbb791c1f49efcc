#include "overlord/transport/transform_runner.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "overlord/runtime/steady_clock.h"

namespace overlord::transport {
namespace {

using runtime::steady_now_ns;

constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kLeaveGraceNs = 20 * kMillisecond;
constexpr int64_t kDeathGraceNs = 5000 * kMillisecond;  // what hung up dies soon, if not at once
constexpr int64_t kLookEveryNs = 100 * kMillisecond;    // at the memory of a worker

Status as_garbage(const Status& status) {
  if (status.ok()) return status;
  return {Code::kUnavailable, "sent garbage: " + status.message()};
}

// What another process may do better. A stop is not.
bool may_go_better(Code code) {
  return code == Code::kUnavailable || code == Code::kDeadline || code == Code::kResource;
}

template <typename T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string seconds(int64_t ns) {
  const int64_t tenths = ns / (100 * kMillisecond);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

TransformProcess::~TransformProcess() {
  if (process_ != nullptr) finish(kLeaveGraceNs);
}

std::string TransformProcess::finish(int64_t grace_ns) {
  counters_.living.remove(process_->pid());
  return process_->finish(grace_ns);
}

Status TransformProcess::ready() {
  if (process_ != nullptr) return {};
  OVERLORD_TRY(process_, WorkerProcess::start(settings_.command, settings_.stop_descriptor));
  counters_.starts.fetch_add(1, std::memory_order_relaxed);
  counters_.living.add(process_->pid());
  const Status greeted = greet();
  if (greeted.ok()) return {};
  if (may_go_better(greeted.code())) return bury(greeted);
  finish(kLeaveGraceNs);
  process_.reset();
  return greeted;
}

Status TransformProcess::greet() {
  const int64_t deadline_ns = steady_now_ns() + settings_.start_deadline_ns;
  std::array<char, kTokenizerHeadBytes> bytes;
  OVERLORD_RETURN_IF_ERROR(receive(bytes.data(), bytes.size(), deadline_ns));
  const auto head = parse_tokenizer_head({bytes.data(), bytes.size()});
  if (!head.ok()) return as_garbage(head.status());
  if (head->kind == TokenizerFrame::kRows) {
    return {Code::kUnavailable, "sent garbage: an answer in place of a greeting"};
  }
  OVERLORD_TRY(const std::string text, read_text(head->count, deadline_ns));
  if (head->kind == TokenizerFrame::kError) {
    return {Code::kUserFunction, "its worker cannot start: " + text};
  }
  const auto greeting = parse_tokenizer_greeting(text);
  if (!greeting.ok()) return as_garbage(greeting.status());
  if (greeting->digest == settings_.expected) return {};
  return {Code::kStateMismatch, "a worker found " + greeting->digest +
                                    ", the job was started with " + settings_.expected +
                                    "; start it again with the version it should have"};
}

Result<TransformAnswer> TransformProcess::run(const runtime::TextRows& rows) {
  const int64_t deadline_ns = steady_now_ns() + settings_.batch_deadline_ns;
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
  OVERLORD_RETURN_IF_ERROR(process_->send(pieces, settings_.batch_deadline_ns));
  OVERLORD_RETURN_IF_ERROR(wait_for_answer(deadline_ns));
  return read_answer(rows.rows(), deadline_ns);
}

// Looks at the worker's memory now and then, so that one that eats without end is ended in time.
Status TransformProcess::wait_for_answer(int64_t deadline_ns) {
  while (true) {
    const int64_t now_ns = steady_now_ns();
    if (now_ns >= deadline_ns) {
      return {Code::kDeadline,
              "did not answer within its deadline of " + seconds(settings_.batch_deadline_ns)};
    }
    const Status readable = process_->wait_readable(std::min(now_ns + kLookEveryNs, deadline_ns));
    if (readable.code() != Code::kDeadline) return readable;
    if (over_memory()) {
      return {Code::kResource, "used more than its limit of " +
                                   std::to_string(settings_.memory_bytes >> 20) + " MiB of memory"};
    }
  }
}

Result<TransformAnswer> TransformProcess::read_answer(size_t rows, int64_t deadline_ns) {
  std::array<char, kTokenizerHeadBytes> bytes;
  OVERLORD_RETURN_IF_ERROR(receive(bytes.data(), bytes.size(), deadline_ns));
  const auto head = parse_tokenizer_head({bytes.data(), bytes.size()});
  if (!head.ok()) return as_garbage(head.status());
  if (head->kind == TokenizerFrame::kError) {
    OVERLORD_TRY(const std::string text, read_text(head->count, deadline_ns));
    return Status(Code::kUserFunction, text);
  }
  if (head->kind != TokenizerFrame::kRows || head->count != rows) {
    return Status(Code::kUnavailable, "sent garbage: an answer to something else");
  }
  std::array<char, kTransformSizesBytes> told;
  OVERLORD_RETURN_IF_ERROR(receive(told.data(), told.size(), deadline_ns));
  const auto sizes = parse_transform_sizes({told.data(), told.size()}, settings_.memory_bytes);
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

Result<std::string> TransformProcess::read_text(uint32_t size_bytes, int64_t deadline_ns) {
  std::string text(size_bytes, '\0');
  OVERLORD_RETURN_IF_ERROR(receive(text.data(), text.size(), deadline_ns));
  return text;
}

Status TransformProcess::receive(void* data, size_t size_bytes, int64_t deadline_ns) {
  const int64_t left_ns = std::max<int64_t>(deadline_ns - steady_now_ns(), 0);
  return process_->receive(data, size_bytes, left_ns);
}

bool TransformProcess::over_memory() const {
  return resident_bytes(process_->pid()) > settings_.memory_bytes;
}

// Ends the failed process and tells its story.
Status TransformProcess::bury(const Status& failure) {
  counters_.failures.fetch_add(1, std::memory_order_relaxed);
  const bool dying = failure.code() == Code::kUnavailable;
  std::string story = "its worker " + failure.message();
  story += "; its end: " + finish(dying ? kDeathGraceNs : 0);
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
  if (!over_memory()) return;
  counters_.recycled.fetch_add(1, std::memory_order_relaxed);
  finish(kLeaveGraceNs);
  process_.reset();
}

}  // namespace overlord::transport
