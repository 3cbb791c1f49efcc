// RankSeats: the trainer's end of the ranks that live in this process. Keeps what was handed over
// for each of them, waits with a deadline, knows resume states and hashes. How the steps get here
// is the engine's business.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/host/consumer.h"
#include "overlord/node/engine/rule_desk.h"
#include "overlord/node/engine/state_book.h"
#include "overlord/node/functions/callout_desk.h"
#include "overlord/protocol/messages.h"
#include "overlord/roles/client/probe.h"
#include "overlord/runtime/birth_process.h"
#include "overlord/runtime/handoff.h"
#include "overlord/runtime/seams.h"

namespace overlord::node {

class RankSeats {
 public:
  // Called on the caller's thread, with its rank's seat locked.
  struct Wiring {
    // The trainer is done with a step of that tree.
    std::function<void(Rank, StepIndex, uint32_t tree)> consumed;
    std::function<void(Rank, protocol::Message)> tell_planner;
    std::function<client::ClientProbe&(Rank)> probe;  // counters of a rank
    std::function<Status()> may_wait;                 // refuse to hand out still more
    // Whether a rank may begin a step; false: not within the time. Then `begin`, when it is here.
    std::function<Result<bool>(Rank, StepIndex, int64_t timeout_ms)> may_begin;
    std::function<Status(Rank, StepIndex)> begin;
    std::function<Status(const model::StreamState&)> at_end;  // what the end itself may say
    // What a rank waits for: kDeadline, or what ends the waiting.
    std::function<Status(Rank, StepIndex)> explain_wait;
    bool metric_driven = false;
    int64_t report_answer_ms = 60'000;  // a planner that does not answer a report is broken ...
    std::function<bool()> planner_waits_for_disk;  // ... or has no space to write it down
    // Batches are given on as they were handed over, or as copies; null: as they were.
    std::function<Result<model::MicrobatchPtr>(model::MicrobatchPtr)> give_out;
  };

  RankSeats(std::vector<Rank> ranks, const protocol::ResumeState& state, uint64_t kept_feedback,
            runtime::Clock& clock, Wiring wiring);

  // From the roles' side, any thread.
  void deliver(Rank rank, client::ReadyStep ready);
  // What was delivered from there on is void, given out or not. Behind it that comes again.
  void restart(Rank rank, uint32_t tree, const protocol::ResumeState& from);
  void answer(Rank rank, protocol::ReportAnswered answer);
  void fed_back(const model::StepFeedback& feedback) { book_->fed_back(feedback); }
  void rule_asked(Rank rank, model::StepFeedback question) {
    rule_->ask(rank, std::move(question));
  }
  void callout_asked(Rank rank, const protocol::CalloutAsked& asked);
  // Wakes every waiting caller; they get `why`.
  void close(Status why);
  // Those that wait for the planner alone: what is ready is still given out.
  void stop_reports(Status why);

  // As Engine's.
  Result<model::MicrobatchPtr> next(Rank rank, int64_t timeout_ms);
  KeptPlace place(Rank rank);
  Result<protocol::Verdict> report(Rank rank, model::StepFeedback part);
  Status resize(SourceIndex source, uint32_t slots);
  uint64_t wait_ns(Rank rank) { return wiring_.probe(rank).wait_ns; }
  Digest rank_hash(Rank rank);
  Digest plan_chain();
  Digest content_chain();
  Digest stream_hash();
  const std::vector<Rank>& ranks() const { return ranks_; }
  const std::shared_ptr<RuleDesk>& rule() const { return rule_; }
  const std::shared_ptr<CalloutDesk>& callouts() const { return callouts_; }
  size_t steps_waiting(Rank rank) const { return seats_.at(rank)->steps.size(); }

 private:
  struct Seat {  // one hosted rank
    explicit Seat(protocol::ResumeState base) : consumer(std::move(base)) {}
    std::mutex mutex;  // the trainer's thread against state() and hashes from another
    host::Consumer consumer OVERLORD_GUARDED_BY(mutex);
    runtime::Handoff<client::ReadyStep> steps;
    std::mutex restart_mutex;  // held for moments alone, by the roles' side and the trainer's
    std::optional<protocol::ResumeState> restart OVERLORD_GUARDED_BY(restart_mutex);
    uint32_t tree OVERLORD_GUARDED_BY(restart_mutex) = 0;  // steps of earlier ones are void
    std::mutex report_mutex;                               // one report at a time
    runtime::Handoff<protocol::ReportAnswered> answers;
  };

  Result<Seat*> seat(Rank rank);
  Result<model::MicrobatchPtr> take(Rank rank, Seat& at) OVERLORD_REQUIRES(at.mutex);
  Status feed(Rank rank, Seat& at, int64_t timeout_ms) OVERLORD_REQUIRES(at.mutex);
  // The earliest tree whose steps count.
  static uint32_t begin_anew(Seat& at) OVERLORD_REQUIRES(at.mutex);
  Status closed_because();
  Status own_process() const;

  std::vector<Rank> ranks_;
  runtime::Clock& clock_;
  Wiring wiring_;
  std::map<Rank, std::unique_ptr<Seat>> seats_;
  std::shared_ptr<StateBook> book_;
  std::shared_ptr<RuleDesk> rule_;
  std::shared_ptr<CalloutDesk> callouts_ = std::make_shared<CalloutDesk>();
  std::atomic<uint64_t> question_{0};  // that is on the desk; 0: none
  std::mutex why_mutex_;
  Status why_ OVERLORD_GUARDED_BY(why_mutex_);  // once closed
  const runtime::BirthProcess process_;
};

}  // namespace overlord::node
