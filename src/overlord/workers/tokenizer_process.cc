#include "overlord/workers/tokenizer_process.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <limits>
#include <string_view>
#include <utility>

#include "overlord/base/guarded_by.h"
#include "overlord/runtime/text_rows.h"
#include "overlord/workers/worker_rules.h"

namespace overlord::workers {
namespace {

using runtime::CancelToken;
using runtime::EncodeDone;
using runtime::EncodedRows;
using runtime::TextRows;

Status check_options(const TokenizerPoolOptions& options) {
  if (options.argv.empty() || options.argv.front().empty()) {
    return invalid_argument("a tokenizer pool needs a command");
  }
  OVERLORD_RETURN_IF_ERROR(check_workers("a tokenizer pool", options.workers));
  if (options.start_deadline_ns <= 0 || options.progress_deadline_ns <= 0) {
    return invalid_argument("a tokenizer pool's deadlines must be positive");
  }
  if (options.queue_limit_batches < 1) {
    return invalid_argument("a tokenizer pool's queue must hold at least one batch");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<TokenizerPool>> TokenizerPool::make(TokenizerPoolOptions options) {
  OVERLORD_RETURN_IF_ERROR(check_options(options));
  std::unique_ptr<TokenizerPool> pool(new TokenizerPool(std::move(options)));
  OVERLORD_RETURN_IF_ERROR(pool->start());
  return pool;
}

TokenizerPool::TokenizerPool(TokenizerPoolOptions options)
    : options_(std::move(options)),
      seats_(
          "ol-tok-", options_.workers,
          [this] { return std::make_unique<TokenizerWorker>(settings_, counters_); },
          [this](auto& worker, Request request) { serve(worker.get(), std::move(request)); }) {}

Status TokenizerPool::start() {
  stop_ = runtime::Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_.valid()) return {Code::kResource, "cannot make an eventfd"};
  settings_ = {.command = {options_.argv, environment_with(options_.environment)},
               .start_deadline_ns = options_.start_deadline_ns,
               .progress_deadline_ns = options_.progress_deadline_ns,
               .stop_descriptor = stop_.get(),
               .template_bytes = options_.template_bytes,
               .admit = [this](const TokenizerGreeting& greeting) { return admit(greeting); }};
  return seats_.start();
}

TokenizerPool::~TokenizerPool() {
  seats_.end([this] { eventfd_write(stop_.get(), 1); });
}

void TokenizerPool::encode(TextRows rows, CancelToken cancel, EncodeDone done) {
  Request request{std::move(rows), std::move(cancel), std::move(done), nullptr, {}};
  request.refusal = check_text_rows(request.rows);
  if (request.rows.rows() > std::numeric_limits<uint32_t>::max()) {
    request.refusal = invalid_argument("a batch of text has too many rows");
  }
  submit(std::move(request));
}

Result<TokenizerGreeting> TokenizerPool::greeting() {
  {
    const std::lock_guard lock(mutex_);
    if (agreed_.has_value()) return *agreed_;
  }
  auto promise = std::make_shared<std::promise<Result<TokenizerGreeting>>>();
  std::future<Result<TokenizerGreeting>> future = promise->get_future();
  Request request;
  request.greeted = [promise](Result<TokenizerGreeting> greeting) {
    promise->set_value(std::move(greeting));
  };
  submit(std::move(request));
  return future.get();
}

TokenizerPoolStats TokenizerPool::stats() const {
  const std::lock_guard lock(mutex_);
  TokenizerPoolStats stats = stats_;
  stats.queued = seats_.waiting();
  stats.starts = counters_.starts.load(std::memory_order_relaxed);
  stats.failures = counters_.failures.load(std::memory_order_relaxed);
  return stats;
}

// The same text must give the same tokens whichever process makes them, today and after a restart.
Status TokenizerPool::admit(const TokenizerGreeting& greeting) {
  const std::lock_guard lock(mutex_);
  if (!agreed_.has_value()) {
    if (!options_.expected_digest.empty() && greeting.digest != options_.expected_digest) {
      return {Code::kStateMismatch, "the tokenizer is not the one expected: digest " +
                                        greeting.digest + ", expected " + options_.expected_digest};
    }
    agreed_ = greeting;
  }
  if (greeting == *agreed_) return {};
  return {Code::kStateMismatch, "a tokenizer worker differs from the first one: digest " +
                                    greeting.digest + ", first " + agreed_->digest};
}

void TokenizerPool::submit(Request request) {
  TextRows unwanted;  // freed outside the lock
  const std::lock_guard lock(mutex_);
  const uint64_t size_bytes = request.rows.bytes.size();
  const size_t waiting = seats_.waiting();
  const bool full = waiting >= options_.queue_limit_batches ||
                    (waiting > 0 && size_bytes > 0 &&
                     stats_.queued_bytes + size_bytes > options_.queue_limit_bytes);
  if (full && request.refusal.ok() && request.done) {
    ++stats_.refused;
    request.refusal =
        Status(Code::kResource,
               "the tokenizer queue is full: " + std::to_string(stats_.queued_bytes) + " bytes");
  }
  const bool refused = !request.refusal.ok();
  if (refused) unwanted = std::exchange(request.rows, {});
  stats_.queued_bytes += request.rows.bytes.size();
  seats_.push(std::move(request), /*first=*/refused);  // it waits for nothing but a free thread
}

void TokenizerPool::serve(TokenizerWorker* worker, Request request) {
  {
    const std::lock_guard lock(mutex_);
    stats_.queued_bytes -= request.rows.bytes.size();
  }
  if (worker == nullptr) {
    request.refusal = Status(Code::kCancelled, "the tokenizer pool has ended");
  }
  const bool known = !request.refusal.ok();
  if (request.greeted) {
    return request.greeted(known ? Result<TokenizerGreeting>(request.refusal) : worker->greet());
  }
  Result<EncodedRows> result = known ? Result<EncodedRows>(request.refusal)
                               : request.rows.rows() == 0
                                   ? Result<EncodedRows>(EncodedRows{})
                                   : worker->encode(request.rows, request.cancel);
  {
    const std::lock_guard lock(mutex_);
    if (result.ok()) {
      ++stats_.encoded;
      stats_.tokens += result.value().tokens.size();
    } else if (result.status().code() != Code::kCancelled) {
      ++stats_.failed;
    }
  }
  request.done(std::move(result));
}

}  // namespace overlord::workers
