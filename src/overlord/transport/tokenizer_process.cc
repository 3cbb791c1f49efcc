#include "overlord/transport/tokenizer_process.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <limits>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/runtime/text_rows.h"

namespace overlord::transport {
namespace {

using runtime::CancelToken;
using runtime::EncodeDone;
using runtime::EncodedRows;
using runtime::TextRows;

constexpr size_t kMostWorkers = 256;

// Our environment with `changes` over it.
std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  const auto name_of = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  std::vector<std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const bool changed = std::any_of(changes.begin(), changes.end(), [&](const auto& change) {
      return name_of(change) == name_of(*entry);
    });
    if (!changed) all.emplace_back(*entry);
  }
  all.insert(all.end(), changes.begin(), changes.end());
  return all;
}

Status check_options(const TokenizerPoolOptions& options) {
  if (options.argv.empty() || options.argv.front().empty()) {
    return invalid_argument("a tokenizer pool needs a command");
  }
  if (options.workers < 1 || options.workers > kMostWorkers) {
    return invalid_argument("a tokenizer pool has 1 to " + std::to_string(kMostWorkers) +
                            " workers, not " + std::to_string(options.workers));
  }
  if (options.start_deadline_ns <= 0 || options.progress_deadline_ns <= 0) {
    return invalid_argument("a tokenizer pool's deadlines must be positive");
  }
  if (options.queue_limit_batches < 1) {
    return invalid_argument("a tokenizer pool's queue must hold at least one batch");
  }
  return {};
}

}  // namespace

struct TokenizerPool::Seat {
  std::condition_variable wake;
  bool woken = false;
  std::thread thread;
};

Result<std::unique_ptr<TokenizerPool>> TokenizerPool::make(TokenizerPoolOptions options) {
  OVERLORD_RETURN_IF_ERROR(check_options(options));
  std::unique_ptr<TokenizerPool> pool(new TokenizerPool(std::move(options)));
  OVERLORD_RETURN_IF_ERROR(pool->start_threads());
  return pool;
}

TokenizerPool::TokenizerPool(TokenizerPoolOptions options) : options_(std::move(options)) {}

Status TokenizerPool::start_threads() {
  stop_descriptor_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_descriptor_ < 0) return {Code::kResource, "cannot make an eventfd"};
  settings_ = {.command = {options_.argv, environment_with(options_.environment)},
               .start_deadline_ns = options_.start_deadline_ns,
               .progress_deadline_ns = options_.progress_deadline_ns,
               .stop_descriptor = stop_descriptor_,
               .template_bytes = options_.template_bytes,
               .admit = [this](const TokenizerGreeting& greeting) { return admit(greeting); }};
  for (size_t i = 0; i < options_.workers; ++i) {
    auto seat = std::make_unique<Seat>();
    try {
      seat->thread = std::thread([this, self = seat.get(), i] {
        pthread_setname_np(pthread_self(), ("ol-tok-" + std::to_string(i)).c_str());
        serve(*self);
      });
    } catch (const std::system_error& error) {
      return {Code::kResource, std::string("cannot start a thread: ") + error.what()};
    }
    seats_.push_back(std::move(seat));
  }
  return {};
}

TokenizerPool::~TokenizerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (Seat* seat : parked_) seat->wake.notify_one();
  }
  if (stop_descriptor_ >= 0) eventfd_write(stop_descriptor_, 1);
  for (const auto& seat : seats_) {
    OVERLORD_CHECK(seat->thread.get_id() != std::this_thread::get_id(),
                   "a tokenizer pool is destroyed by one of its own callbacks");
    seat->thread.join();
  }
  TokenizerWorker nobody(settings_, counters_);  // starts nothing: everything is refused by now
  std::unique_lock lock(mutex_);
  while (!queue_.empty()) {
    Request request = take_first();
    request.refusal = Status(Code::kCancelled, "the tokenizer pool has ended");
    lock.unlock();
    answer(nobody, std::move(request));
    lock.lock();
  }
  lock.unlock();
  if (stop_descriptor_ >= 0) close(stop_descriptor_);
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
  stats.queued = queue_.size();
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
  Seat* waking = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const uint64_t size_bytes = request.rows.bytes.size();
    const bool full = queue_.size() >= options_.queue_limit_batches ||
                      (!queue_.empty() && size_bytes > 0 &&
                       stats_.queued_bytes + size_bytes > options_.queue_limit_bytes);
    if (full && request.refusal.ok() && request.done) {
      ++stats_.refused;
      request.refusal =
          Status(Code::kResource,
                 "the tokenizer queue is full: " + std::to_string(stats_.queued_bytes) + " bytes");
    }
    if (!request.refusal.ok()) unwanted = std::exchange(request.rows, {});
    stats_.queued_bytes += request.rows.bytes.size();
    // A refusal waits for nothing but a free thread.
    if (request.refusal.ok()) {
      queue_.push_back(std::move(request));
    } else {
      queue_.push_front(std::move(request));
    }
    if (!parked_.empty()) {
      waking = parked_.back();
      parked_.pop_back();
      waking->woken = true;
    }
  }
  if (waking != nullptr) waking->wake.notify_one();
}

void TokenizerPool::serve(Seat& seat) {
  TokenizerWorker worker(settings_, counters_);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (queue_.empty()) {
      seat.woken = false;
      parked_.push_back(&seat);
      seat.wake.wait(lock, [&] { return seat.woken || stopping_; });
      if (!seat.woken) std::erase(parked_, &seat);
      continue;
    }
    Request request = take_first();
    lock.unlock();
    answer(worker, std::move(request));
    lock.lock();
  }
}

TokenizerPool::Request TokenizerPool::take_first() {
  Request request = std::move(queue_.front());
  queue_.pop_front();
  stats_.queued_bytes -= request.rows.bytes.size();
  return request;
}

void TokenizerPool::answer(TokenizerWorker& worker, Request request) {
  const bool known = !request.refusal.ok();
  if (request.greeted) {
    return request.greeted(known ? Result<TokenizerGreeting>(request.refusal) : worker.greet());
  }
  Result<EncodedRows> result = known ? Result<EncodedRows>(request.refusal)
                               : request.rows.rows() == 0
                                   ? Result<EncodedRows>(EncodedRows{})
                                   : worker.encode(request.rows, request.cancel);
  count(request, result);
  request.done(std::move(result));
}

void TokenizerPool::count(const Request& request, const Result<EncodedRows>& result) {
  const std::lock_guard lock(mutex_);
  if (result.ok()) {
    ++stats_.encoded;
    stats_.bytes += request.rows.bytes.size();
    stats_.tokens += result.value().tokens.size();
  } else if (result.status().code() != Code::kCancelled) {
    ++stats_.failed;
  }
}

}  // namespace overlord::transport
