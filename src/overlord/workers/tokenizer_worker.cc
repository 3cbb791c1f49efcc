#include "overlord/transport/tokenizer_worker.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <utility>

#include "overlord/runtime/steady_clock.h"

namespace overlord::transport {
namespace {

using runtime::CancelToken;
using runtime::EncodedRows;
using runtime::TextRows;

static_assert(std::endian::native == std::endian::little, "frames are sent as they lie in memory");

constexpr int kTries = 2;
// Over one batch. It has no part in a kill from outside, or it eats all memory: hence a limit.
constexpr int kKillsForgiven = 8;
constexpr size_t kShownWordBytes = 300;
constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kLeaveGraceNs = 20 * kMillisecond;    // to leave when the pool ends
constexpr int64_t kDeathGraceNs = 5000 * kMillisecond;  // to be really dead after it hung up

// What may go better with another process. Everything else is an answer.
bool worth_another_try(Code code) {
  return code == Code::kUnavailable || code == Code::kDeadline || code == Code::kResource;
}

// Bytes that break the protocol are a broken process, not bad data of the caller.
Status as_garbage(const Status& status) {
  if (status.ok()) return status;
  return {Code::kUnavailable, "sent garbage: " + status.message()};
}

std::string shown(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& word : argv) {
    const bool whole = word.size() <= kShownWordBytes;  // a chat template is not
    text += (text.empty() ? "" : " ") + (whole ? word : word.substr(0, kShownWordBytes) + "...");
  }
  return text;
}

template <typename T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

template <typename T>
Result<T> TokenizerWorker::in_two_tries(const std::function<Result<T>()>& attempt,
                                        const CancelToken& cancel) {
  std::string story;
  int kills = 0;
  for (int failures = 0; failures < kTries;) {
    if (cancel.cancelled()) return Status(Code::kCancelled, "encoding was cancelled");
    Result<T> result = attempt();
    if (result.ok()) return result;
    const Status failure = result.status();
    if (!worth_another_try(failure.code())) return result;
    bool killed = false;
    story = bury(failure, &killed);
    if (!killed || ++kills > kKillsForgiven) ++failures;
  }
  return Status(Code::kUnavailable, "tokenizer worker failed twice in a row: " + story);
}

Result<EncodedRows> TokenizerWorker::encode(const TextRows& rows, const CancelToken& cancel) {
  return in_two_tries<EncodedRows>(
      [&]() -> Result<EncodedRows> {
        OVERLORD_RETURN_IF_ERROR(ensure_process());
        const int64_t begin_ns = runtime::steady_now_ns();
        Result<EncodedRows> answer = exchange(rows);
        if (answer.ok()) answer->elapsed_ns = runtime::steady_now_ns() - begin_ns;
        return answer;
      },
      cancel);
}

Result<TokenizerGreeting> TokenizerWorker::greet() {
  return in_two_tries<TokenizerGreeting>(
      [&]() -> Result<TokenizerGreeting> {
        OVERLORD_RETURN_IF_ERROR(ensure_process());
        return greeting_;
      },
      CancelToken());
}

void TokenizerWorker::leave() {
  if (process_ == nullptr) return;
  counters_.living.remove(process_->pid());
  process_->finish(kLeaveGraceNs);
  process_.reset();
}

// Ends the failed process and tells its story.
std::string TokenizerWorker::bury(const Status& failure, bool* killed) {
  counters_.failures.fetch_add(1, std::memory_order_relaxed);
  std::string story = "it " + failure.message();
  if (process_ == nullptr) return story;  // it never started, and the message says so
  counters_.living.remove(process_->pid());
  const bool hung = failure.code() == Code::kDeadline;
  story += "; its end: " + process_->finish(hung ? 0 : kDeathGraceNs);
  *killed = process_->killed_by_others();
  story += "; command: " + shown(settings_.command.argv);
  const std::string words = process_->last_words();
  story += words.empty() ? "; nothing on stderr" : "; last lines on stderr:\n" + words;
  process_.reset();
  return story;
}

Status TokenizerWorker::ensure_process() {
  if (process_ != nullptr) return {};
  OVERLORD_TRY(process_, WorkerProcess::start(settings_.command, settings_.stop_descriptor));
  counters_.starts.fetch_add(1, std::memory_order_relaxed);
  counters_.living.add(process_->pid());
  Status status;
  if (Result<TokenizerGreeting> greeting = read_greeting(); greeting.ok()) {
    greeting_ = std::move(greeting).value();
    status = settings_.admit(greeting_);
  } else {
    status = greeting.status();
  }
  // bury() wants the process; an answer that is final has no use for it.
  if (!status.ok() && !worth_another_try(status.code())) leave();
  return status;
}

Result<TokenizerGreeting> TokenizerWorker::read_greeting() {
  OVERLORD_TRY(const TokenizerFrameHead head, read_head(settings_.start_deadline_ns));
  if (head.kind != TokenizerFrame::kError && head.kind != TokenizerFrame::kGreeting) {
    return Status(Code::kUnavailable, "sent garbage: an answer in place of a greeting");
  }
  OVERLORD_TRY(const std::string text, read_text(head.count));
  if (head.kind == TokenizerFrame::kError) return bad_data("tokenizer cannot start: " + text);
  Result<TokenizerGreeting> greeting = parse_tokenizer_greeting(text);
  if (!greeting.ok()) return as_garbage(greeting.status());
  return greeting;
}

Result<EncodedRows> TokenizerWorker::exchange(const TextRows& rows) {
  const std::string head = tokenizer_request_head(rows);
  const std::array<std::string_view, 3> pieces = {head, bytes_of(rows.ends), rows.bytes};
  OVERLORD_RETURN_IF_ERROR(process_->send(pieces, settings_.progress_deadline_ns));
  return read_answer(rows);
}

Result<EncodedRows> TokenizerWorker::read_answer(const TextRows& rows) {
  const int64_t progress_ns = settings_.progress_deadline_ns;
  OVERLORD_TRY(TokenizerFrameHead head, read_head(progress_ns));
  while (head.kind == TokenizerFrame::kProgress) {
    OVERLORD_TRY(head, read_head(progress_ns));
  }
  if (head.kind == TokenizerFrame::kGreeting) {
    return Status(Code::kUnavailable, "sent garbage: a second greeting");
  }
  if (head.kind == TokenizerFrame::kError) {
    OVERLORD_TRY(const std::string text, read_text(head.count));
    return bad_data("tokenizer refused a batch: " + text);
  }
  uint64_t tokens = 0;
  OVERLORD_RETURN_IF_ERROR(process_->receive(&tokens, sizeof(tokens), progress_ns));
  OVERLORD_RETURN_IF_ERROR(
      as_garbage(check_answer_sizes(rows, head.count, tokens, settings_.template_bytes)));
  EncodedRows answer;
  answer.ends.resize(head.count);
  OVERLORD_RETURN_IF_ERROR(
      process_->receive(answer.ends.data(), head.count * sizeof(uint64_t), progress_ns));
  answer.tokens.resize(tokens);
  OVERLORD_RETURN_IF_ERROR(
      process_->receive(answer.tokens.data(), tokens * sizeof(int32_t), progress_ns));
  if (head.kind == TokenizerFrame::kMaskedRows) {
    OVERLORD_RETURN_IF_ERROR(read_mask(head.count, &answer));
  }
  OVERLORD_RETURN_IF_ERROR(as_garbage(check_answer_values(answer, greeting_.vocab_size)));
  return answer;
}

Status TokenizerWorker::read_mask(uint32_t rows, EncodedRows* answer) {
  const int64_t progress_ns = settings_.progress_deadline_ns;
  answer->mask.resize(answer->tokens.size());
  OVERLORD_RETURN_IF_ERROR(
      process_->receive(answer->mask.data(), answer->mask.size(), progress_ns));
  uint32_t length = 0;
  OVERLORD_RETURN_IF_ERROR(process_->receive(&length, sizeof(length), progress_ns));
  if (length > uint64_t{rows} * (kBadRowReasonBytes + 8)) {
    return {Code::kUnavailable, "sent garbage: more bad rows than a request has"};
  }
  OVERLORD_TRY(const std::string bytes, read_text(length));
  Result<std::vector<model::BadRow>> bad = parse_bad_rows(bytes, rows);
  if (!bad.ok()) return as_garbage(bad.status());
  answer->bad = std::move(*bad);
  return {};
}

Result<TokenizerFrameHead> TokenizerWorker::read_head(int64_t progress_ns) {
  std::array<char, kTokenizerHeadBytes> bytes;
  OVERLORD_RETURN_IF_ERROR(process_->receive(bytes.data(), bytes.size(), progress_ns));
  Result<TokenizerFrameHead> head = parse_tokenizer_head({bytes.data(), bytes.size()});
  if (!head.ok()) return as_garbage(head.status());
  return head;
}

Result<std::string> TokenizerWorker::read_text(uint32_t size_bytes) {
  std::string text(size_bytes, '\0');
  OVERLORD_RETURN_IF_ERROR(
      process_->receive(text.data(), text.size(), settings_.progress_deadline_ns));
  return text;
}

}  // namespace overlord::transport
