#include "overlord/node/engine/rank_seats.h"

#include "overlord/runtime/trace.h"

namespace overlord::node {
namespace {}  // namespace

RankSeats::RankSeats(std::vector<Rank> ranks, const protocol::ResumeState& state,
                     uint64_t kept_feedback, runtime::Clock& clock, Wiring wiring)
    : ranks_(std::move(ranks)),
      clock_(clock),
      wiring_(std::move(wiring)),
      book_(std::make_shared<StateBook>(state, kept_feedback)),
      rule_(std::make_shared<RuleDesk>(wiring_.tell_planner)) {
  for (const Rank rank : ranks_) seats_[rank] = std::make_unique<Seat>(state);
}

void RankSeats::deliver(Rank rank, client::ReadyStep ready) {
  seats_.at(rank)->steps.push(std::move(ready));
}

void RankSeats::restart(Rank rank, uint32_t tree, const protocol::ResumeState& from) {
  Seat& at = *seats_.at(rank);
  const std::lock_guard lock(at.restart_mutex);
  while (at.steps.pop(0)) {
  }
  at.restart = from;
  at.tree = tree;
}

uint32_t RankSeats::begin_anew(Seat& at) {
  const std::lock_guard lock(at.restart_mutex);
  if (at.restart) at.consumer.restart(*at.restart);
  at.restart.reset();
  return at.tree;
}

void RankSeats::answer(Rank rank, protocol::ReportAnswered answer) {
  seats_.at(rank)->answers.push(answer);
}

void RankSeats::callout_asked(Rank rank, const protocol::CalloutAsked& asked) {
  const uint64_t number = asked.question;
  if (question_.exchange(number) == number) return;  // somebody is at it
  callouts_->ask(*asked.request, [this, rank, number](Result<std::vector<int64_t>> answer) {
    uint64_t told = number;
    question_.compare_exchange_strong(told, 0);
    wiring_.tell_planner(rank, answer.ok() ? protocol::CalloutTold{number, std::move(*answer)}
                                           : protocol::CalloutTold{number, {}, answer.status()});
  });
}

void RankSeats::close(Status why) {
  stop_reports(std::move(why));
  for (auto& [rank, seat] : seats_) seat->steps.close();
}

void RankSeats::stop_reports(Status why) {
  {
    const std::lock_guard lock(why_mutex_);
    if (why_.ok()) why_ = std::move(why);
  }
  rule_->close();
  callouts_->close();
  for (auto& [rank, seat] : seats_) seat->answers.close();
}

Status RankSeats::closed_because() {
  const std::lock_guard lock(why_mutex_);
  return why_;
}

Status RankSeats::own_process() const {
  if (process_.here()) return {};
  return {Code::kCancelled,
          "this loader was started in another process; make a new one after a fork"};
}

Result<RankSeats::Seat*> RankSeats::seat(Rank rank) {
  const auto found = seats_.find(rank);
  if (found == seats_.end()) {
    return invalid_argument("rank " + std::to_string(rank) + " is not hosted by this engine");
  }
  return found->second.get();
}

// With its last microbatch a step is done with here: who holds views holds their memory.
Result<model::MicrobatchPtr> RankSeats::take(Rank rank, Seat& at) {
  model::MicrobatchPtr batch = at.consumer.take();
  if (batch) ++wiring_.probe(rank).microbatches;
  if (const std::optional<StepIndex> step = at.consumer.take_consumed()) {
    wiring_.consumed(rank, *step, at.consumer.tree());
  }
  if (batch && wiring_.give_out) return wiring_.give_out(std::move(batch));
  return batch;
}

Result<model::MicrobatchPtr> RankSeats::next(Rank rank, int64_t timeout_ms) {
  OVERLORD_RETURN_IF_ERROR(own_process());
  OVERLORD_TRY(Seat * at, seat(rank));
  const std::lock_guard lock(at->mutex);
  for (;;) {
    begin_anew(*at);
    OVERLORD_TRY(model::MicrobatchPtr batch, take(rank, *at));
    if (batch) return batch;
    if (at->consumer.failure()) return *at->consumer.failure();
    if (at->consumer.ended()) {
      if (wiring_.at_end) OVERLORD_RETURN_IF_ERROR(wiring_.at_end(at->consumer.state().state));
      return model::MicrobatchPtr();
    }
    if (wiring_.may_wait) OVERLORD_RETURN_IF_ERROR(wiring_.may_wait());
    OVERLORD_RETURN_IF_ERROR(feed(rank, *at, timeout_ms));
  }
}

// Waits for the next step.
Status RankSeats::feed(Rank rank, Seat& at, int64_t timeout_ms) {
  const StepIndex step = at.consumer.place().next_step;
  const int64_t begin_ns = clock_.now_ns();
  bool may = true;
  if (wiring_.may_begin) {
    OVERLORD_TRY(may, wiring_.may_begin(rank, step, timeout_ms));
  }
  std::optional<client::ReadyStep> ready;
  if (may) ready = at.steps.pop(timeout_ms);
  const int64_t end_ns = clock_.now_ns();
  wiring_.probe(rank).wait_ns += static_cast<uint64_t>(end_ns - begin_ns);
  if (runtime::tracing()) {
    runtime::TraceBook::of_process().note("wait", "rank " + std::to_string(rank), begin_ns, end_ns,
                                          static_cast<int64_t>(step));
  }
  if (!ready) {
    if (at.steps.closed()) return closed_because();
    return wiring_.explain_wait(rank, step);
  }
  const uint32_t tree = begin_anew(at);  // it may be the first that comes again, or void
  if (!ready->failure && ready->plan->versions.tree < tree) return {};
  if (wiring_.begin && !ready->failure) OVERLORD_RETURN_IF_ERROR(wiring_.begin(rank, ready->step));
  at.consumer.feed(std::move(*ready));
  return {};
}

KeptPlace RankSeats::place(Rank rank) {
  Seat& at = *seat(rank).value();
  const std::lock_guard lock(at.mutex);
  return {book_, at.consumer.place()};
}

Result<protocol::Verdict> RankSeats::report(Rank rank, model::StepFeedback part) {
  OVERLORD_RETURN_IF_ERROR(own_process());
  OVERLORD_TRY(Seat * at, seat(rank));
  if (!wiring_.metric_driven) {
    return invalid_argument("the mixture follows no losses: nothing to report to");
  }
  const StepIndex step = part.step;
  {
    const std::lock_guard lock(at->mutex);
    if (at->consumer.place().next_step <= step) {
      return invalid_argument("rank " + std::to_string(rank) + " has not consumed step " +
                              std::to_string(step));
    }
  }
  const std::lock_guard one(at->report_mutex);
  wiring_.tell_planner(rank, protocol::Report{std::move(part)});
  for (;;) {
    const std::optional<protocol::ReportAnswered> answer =
        at->answers.pop(wiring_.report_answer_ms);
    if (answer && answer->step == step) return answer->verdict;
    if (answer) continue;  // of a report that was given up
    if (at->answers.closed()) return closed_because();
    if (wiring_.planner_waits_for_disk && wiring_.planner_waits_for_disk()) continue;
    return Status(Code::kDeadline,
                  "no answer to the report of step " + std::to_string(step) + " for a minute");
  }
}

Status RankSeats::resize(SourceIndex source, uint32_t slots) {
  OVERLORD_RETURN_IF_ERROR(own_process());
  wiring_.tell_planner(ranks().front(), protocol::SlotsWished{source, slots});
  return {};
}

Digest RankSeats::rank_hash(Rank rank) {
  Seat& at = *seat(rank).value();
  const std::lock_guard lock(at.mutex);
  return at.consumer.rank_hash();
}

Digest RankSeats::plan_chain() {
  Seat& at = *seats_.begin()->second;
  const std::lock_guard lock(at.mutex);
  return at.consumer.plan_chain();
}

Digest RankSeats::content_chain() {
  Seat& at = *seats_.begin()->second;
  const std::lock_guard lock(at.mutex);
  return at.consumer.content_chain();
}

Digest RankSeats::stream_hash() {
  std::vector<Digest> hashes;
  for (const Rank rank : ranks_) hashes.push_back(rank_hash(rank));
  return host::stream_hash(plan_chain(), hashes);
}

}  // namespace overlord::node
