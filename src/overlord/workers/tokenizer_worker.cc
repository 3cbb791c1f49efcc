#include "overlord/workers/tokenizer_worker.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <utility>

#include "overlord/runtime/steady_clock.h"
#include "overlord/workers/worker_rules.h"

namespace overlord::workers {
namespace {

using runtime::CancelToken;
using runtime::EncodedRows;
using runtime::TextRows;

static_assert(std::endian::native == std::endian::little, "frames are sent as they lie in memory");

// Over one batch. It has no part in a kill from outside, or it eats all memory: hence a limit.
constexpr int kKillsForgiven = 8;
constexpr size_t kShownWordBytes = 300;

std::string shown(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& word : argv) {
    const bool whole = word.size() <= kShownWordBytes;  // a chat template is not
    text += (text.empty() ? "" : " ") + (whole ? word : word.substr(0, kShownWordBytes) + "...");
  }
  return text;
}

}  // namespace

Result<TokenizerFrameHead> receive_head(WorkerProcess& process, int64_t progress_ns) {
  std::array<char, kTokenizerHeadBytes> bytes;
  OVERLORD_RETURN_IF_ERROR(process.receive(bytes.data(), bytes.size(), progress_ns));
  Result<TokenizerFrameHead> head = parse_tokenizer_head({bytes.data(), bytes.size()});
  if (!head.ok()) return as_garbage(head.status());
  return head;
}

Result<std::string> receive_text(WorkerProcess& process, uint32_t size_bytes, int64_t progress_ns) {
  std::string text(size_bytes, '\0');
  OVERLORD_RETURN_IF_ERROR(process.receive(text.data(), text.size(), progress_ns));
  return text;
}

Result<TokenizerGreeting> receive_greeting(WorkerProcess& process, int64_t progress_ns,
                                           const Status& refused) {
  OVERLORD_TRY(const TokenizerFrameHead head, receive_head(process, progress_ns));
  if (head.kind != TokenizerFrame::kError && head.kind != TokenizerFrame::kGreeting) {
    return Status(Code::kUnavailable, "sent garbage: an answer in place of a greeting");
  }
  OVERLORD_TRY(const std::string text, receive_text(process, head.count, progress_ns));
  if (head.kind == TokenizerFrame::kError) {
    return Status(refused.code(), refused.message() + text);
  }
  Result<TokenizerGreeting> greeting = parse_tokenizer_greeting(text);
  if (!greeting.ok()) return as_garbage(greeting.status());
  return greeting;
}

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
    if (!may_go_better(failure.code())) return result;
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
  process_->finish(kLeaveGraceNs);
  process_.reset();
}

// Ends the failed process and tells its story.
std::string TokenizerWorker::bury(const Status& failure, bool* killed) {
  counters_.failures.fetch_add(1, std::memory_order_relaxed);
  std::string story = "it " + failure.message();
  if (process_ == nullptr) return story;  // it never started, and the message says so
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
  OVERLORD_TRY(process_, WorkerProcess::start(settings_.command, settings_.stop_descriptor,
                                              counters_.living));
  counters_.starts.fetch_add(1, std::memory_order_relaxed);
  Result<TokenizerGreeting> greeting = receive_greeting(*process_, settings_.start_deadline_ns,
                                                        bad_data("tokenizer cannot start: "));
  Status status = greeting.status();
  if (greeting.ok()) status = settings_.admit(greeting_ = std::move(*greeting));
  // bury() wants the process; an answer that is final has no use for it.
  if (!status.ok() && !may_go_better(status.code())) leave();
  return status;
}

Result<EncodedRows> TokenizerWorker::exchange(const TextRows& rows) {
  const std::string head = tokenizer_request_head(rows);
  const std::array<std::string_view, 3> pieces = {head, bytes_of(rows.ends), rows.bytes};
  OVERLORD_RETURN_IF_ERROR(process_->send(pieces, settings_.progress_deadline_ns));
  return read_answer(rows);
}

Result<EncodedRows> TokenizerWorker::read_answer(const TextRows& rows) {
  const int64_t progress_ns = settings_.progress_deadline_ns;
  OVERLORD_TRY(TokenizerFrameHead head, receive_head(*process_, progress_ns));
  while (head.kind == TokenizerFrame::kProgress) {
    OVERLORD_TRY(head, receive_head(*process_, progress_ns));
  }
  if (head.kind == TokenizerFrame::kGreeting) {
    return Status(Code::kUnavailable, "sent garbage: a second greeting");
  }
  if (head.kind == TokenizerFrame::kError) {
    OVERLORD_TRY(const std::string text, receive_text(*process_, head.count, progress_ns));
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
  OVERLORD_TRY(const std::string bytes, receive_text(*process_, length, progress_ns));
  Result<std::vector<model::BadRow>> bad = parse_bad_rows(bytes, rows);
  if (!bad.ok()) return as_garbage(bad.status());
  answer->bad = std::move(*bad);
  return {};
}

}  // namespace overlord::workers
