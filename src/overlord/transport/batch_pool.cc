#include "overlord/transport/batch_pool.h"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/transport/batch_frames.h"

namespace overlord::transport {
namespace {

using runtime::BatchAnswer;
using runtime::BatchQuestion;

constexpr size_t kMostWorkers = 256;
constexpr int kTries = 2;

Status ended() { return {Code::kCancelled, "the batch transform's pool has ended"}; }

// What a fresh worker may do better.
bool may_go_better(Code code) { return code == Code::kUnavailable || code == Code::kBadData; }

}  // namespace

Result<std::unique_ptr<BatchPool>> BatchPool::make(BatchPoolOptions options) {
  if (options.workers < 1 || options.workers > kMostWorkers || !options.make_runner) {
    return invalid_argument("batch_transform " + options.function + ": has 1 to " +
                            std::to_string(kMostWorkers) + " workers, not " +
                            std::to_string(options.workers));
  }
  return std::unique_ptr<BatchPool>(new BatchPool(std::move(options)));
}

BatchPool::~BatchPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (options_.stop) options_.stop();
  for (std::thread& thread : threads_) {
    OVERLORD_CHECK(thread.get_id() != std::this_thread::get_id(),
                   "a batch pool is destroyed by one of its own callbacks");
    thread.join();
  }
  for (Task& task : queue_) task.done(ended());
}

void BatchPool::apply(BatchQuestion question, runtime::BatchDone done) {
  push({std::move(question), std::move(done), std::nullopt});
}

BatchPoolStats BatchPool::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void BatchPool::push(Task task) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(task));
  wake_.notify_one();
  // A host of loaders alone never gets here, and keeps no threads for it.
  while (threads_.size() < options_.workers && !stopping_) {
    try {
      threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      OVERLORD_CHECK(!threads_.empty(), "no thread can be started for a batch transform");
      return;  // fewer seats
    }
  }
}

void BatchPool::serve() {
  pthread_setname_np(pthread_self(), "ol-user-batch");
  Seat seat = options_.make_runner();
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    carry_out(&seat, std::move(task));
    lock.lock();
  }
}

void BatchPool::carry_out(Seat* seat, Task task) {
  Result<BatchAnswer> answer = solve(seat, task.question);
  if (task.first) {
    return task.done(compared(task.question, std::move(*task.first), std::move(answer)));
  }
  if (!answer.ok() || !is_sampled(task)) return task.done(std::move(answer));
  // Back into the queue, so that mostly another worker makes the call the second time.
  task.first = std::move(*answer);
  push(std::move(task));
}

// The first call of a pool, and those whose key says so: the same ones wherever they are made.
bool BatchPool::is_sampled(const Task& task) {
  const std::lock_guard lock(mutex_);
  if (options_.check_every == 0) return false;
  if (stats_.checked > 0 && task.question.key % options_.check_every != 0) return false;
  ++stats_.checked;
  return true;
}

Status BatchPool::ready(Seat* seat) {
  Status status;
  for (int i = 0; i < kTries; ++i) {
    status = (*seat)->ready();
    if (status.ok() || status.code() != Code::kUnavailable) return status;
  }
  return {Code::kUserFunction, status.message()};
}

Result<BatchAnswer> BatchPool::solve(Seat* seat, const BatchQuestion& question) {
  for (int i = 1;; ++i) {
    const Status stands = ready(seat);
    if (!stands.ok()) return named(question, stands);
    Result<BatchAnswer> answer = call(**seat, question);
    const bool again = !answer.ok() && may_go_better(answer.status().code()) && i < kTries;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return ended();
      ++(again ? stats_.retried : stats_.calls);
    }
    if (answer.ok()) return answer;
    if (!again) return named(question, answer.status());
    *seat = options_.make_runner();  // nothing of the first try is left
  }
}

// kBadData: it has answered, with what is of no use.
Result<BatchAnswer> BatchPool::call(TransformRunner& runner, const BatchQuestion& question) const {
  runtime::TextRows rows;
  rows.bytes = encode_batch_question(question);
  rows.ends = {rows.bytes.size()};
  OVERLORD_TRY(TransformAnswer answered, runner.run(rows));
  if (answered.kind(0) == TransformedAs::kBad) return bad_data(answered.text);
  if (answered.kind(0) != TransformedAs::kText) return bad_data("its worker sent garbage");
  auto held = std::make_shared<const TransformAnswer>(std::move(answered));
  BatchAnswer answer;
  OVERLORD_TRY(answer.arrays, parse_batch_answer(held->text));
  answer.holder = held;
  const Status usable = check_answer(question, answer, options_.vocabulary);
  if (!usable.ok()) return bad_data(usable.message());
  return answer;
}

Result<BatchAnswer> BatchPool::compared(const BatchQuestion& question, BatchAnswer first,
                                        Result<BatchAnswer> second) const {
  if (!second.ok()) return second;
  if (same_answer(first, *second)) return first;
  return named(question, Status(Code::kUserFunction,
                                "is not deterministic: for the same microbatch it gave two "
                                "different answers; what it gives must follow from its input "
                                "alone, draw chance from `key`"));
}

// Whoever reads it finds the function and the place.
Status BatchPool::named(const BatchQuestion& question, const Status& status) const {
  if (status.code() == Code::kCancelled) return status;
  const Code code = may_go_better(status.code()) ? Code::kUserFunction : status.code();
  return {code, "batch_transform " + options_.function + ", " + question.place() + ": " +
                    status.message()};
}

}  // namespace overlord::transport
