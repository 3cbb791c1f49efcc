#include "overlord/workers/batch_pool.h"

#include <utility>

#include "overlord/base/check.h"
#include "overlord/workers/batch_frames.h"
#include "overlord/workers/worker_rules.h"

namespace overlord::workers {
namespace {

using runtime::BatchAnswer;
using runtime::BatchQuestion;

Status ended() { return {Code::kCancelled, "the batch transform's pool has ended"}; }

// What a fresh worker may do better.
bool worth_a_fresh_worker(Code code) {
  return code == Code::kUnavailable || code == Code::kBadData;
}

}  // namespace

Result<std::unique_ptr<BatchPool>> BatchPool::make(BatchPoolOptions options) {
  OVERLORD_RETURN_IF_ERROR(
      check_workers("batch_transform " + options.function + ":", options.workers));
  return std::unique_ptr<BatchPool>(new BatchPool(std::move(options)));
}

BatchPool::BatchPool(BatchPoolOptions options)
    : options_(std::move(options)),
      sample_(options_.check_every),
      seats_("ol-user-batch-", options_.workers, options_.make_runner,
             [this](Seat& seat, Task task) { carry_out(seat, std::move(task)); }) {}

void BatchPool::apply(BatchQuestion question, runtime::BatchDone done) {
  seats_.push({std::move(question), std::move(done), std::nullopt});
  // A host of loaders alone never gets here, and keeps no threads for it.
  OVERLORD_CHECK(seats_.start().ok() || seats_.started() > 0,
                 "no thread can be started for a batch transform");
}

void BatchPool::carry_out(Seat& seat, Task task) {
  if (!seat) return task.done(ended());
  Result<BatchAnswer> answer = solve(seat, task.question);
  if (task.first) {
    return task.done(compared(task.question, std::move(*task.first), std::move(answer)));
  }
  if (!answer.ok() || !sample_.takes(task.question.key)) return task.done(std::move(answer));
  // Back into the queue, so that mostly another worker makes the call the second time.
  task.first = std::move(*answer);
  seats_.push(std::move(task));
}

Result<BatchAnswer> BatchPool::solve(Seat& seat, const BatchQuestion& question) {
  for (int i = 1;; ++i) {
    const Status stands = ready_in_tries(*seat);
    if (!stands.ok()) return named(question, stands);
    Result<BatchAnswer> answer = call(*seat, question);
    if (seats_.ending()) return ended();
    if (answer.ok()) return answer;
    if (!worth_a_fresh_worker(answer.status().code()) || i >= kTries) {
      return named(question, answer.status());
    }
    seat = options_.make_runner();  // nothing of the first try is left
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
  const Code code = worth_a_fresh_worker(status.code()) ? Code::kUserFunction : status.code();
  return {code, "batch_transform " + options_.function + ", " + question.place() + ": " +
                    status.message()};
}

}  // namespace overlord::workers
