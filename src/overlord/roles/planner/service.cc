// Carries out the planner's effects: sends, journals, and applies what has become durable.
#include <algorithm>
#include <deque>

#include "overlord/base/check.h"
#include "overlord/protocol/journal_record.h"
#include "overlord/protocol/state_codec.h"
#include "overlord/roles/planner/reports.h"
#include "overlord/roles/planner/role.h"
#include "overlord/roles/planner/tree.h"
#include "overlord/runtime/trace.h"

namespace overlord::planner {

class Planner::Service : public std::enable_shared_from_this<Planner::Service> {
 public:
  Service(PlannerStart start, PlannerSeams seams)
      : job_(std::move(start.job)),
        seams_(std::move(seams)),
        state_(std::move(start.state), std::move(start.first_windows), job_.buckets,
               std::move(start.feedback), std::move(start.peers)),
        config_(start.config),
        manifest_(start.manifest) {}

  void start() {
    start_journal();
    for (const auto& [step, feedback] : state_.pending_feedback()) {
      journal(record_of(feedback), [](Service&) {});
    }
  }

  void receive(const protocol::Envelope& envelope) {
    if (std::holds_alternative<protocol::MetaPosted>(envelope.message)) ++probe_.meta_windows;
    perform(on_message(job_, state_, envelope));
    ask_user_rule();
    if (!changing_) retire();
    pump();
  }

  void rebuild_tree(TreeWish wish, TreeAnswer done) {
    wishes_.push_back({std::move(wish), std::move(done)});
    grant_wishes();
  }

  const PlannerProbe& probe() const { return probe_; }
  const PlannerState& state() const { return state_; }

 private:
  struct Asked {
    TreeWish wish;
    TreeAnswer done;
  };

  // One tree at a time. Who wishes the same as the one before gets the same answer.
  void grant_wishes() {
    while (!changing_ && !wishes_.empty()) {
      // A plan that is being made durable keeps the tree it was made with, and a step that a
      // function is asked about the tree that it was told of.
      const StepIndex next = first_unplanned() + (asking_ ? 1 : 0);
      Result<TreeDecision> decision = state_.failure()
                                          ? Result<TreeDecision>(state_.failure()->status)
                                          : decide_tree(job_, state_, wishes_.front().wish, next);
      if (decision.ok() && decision->change) return carry_out(*decision->change);
      answer_wish(decision.ok() ? Result<StepIndex>(decision->first_step)
                                : Result<StepIndex>(decision.status()));
    }
  }

  // The first step that no plan is made of yet; one may be on its way to the journal.
  StepIndex first_unplanned() const { return state_.next_step() + (committing_ ? 1 : 0); }

  void answer_wish(const Result<StepIndex>& answer) {
    if (wishes_.empty()) return;  // answered when the stream failed
    const TreeAnswer done = std::move(wishes_.front().done);
    wishes_.pop_front();
    if (done) done(answer);
  }

  // Everybody is ready for the new tree: plans may be made for it.
  void tree_ready(StepIndex first_step) {
    OVERLORD_CHECK(changing_, "a tree that is on its way");
    changing_ = false;
    answer_wish(first_step);
    retire();
    grant_wishes();
    pump();
  }

  void retire() {
    for (const protocol::Address& constructor : to_retire(state_)) {
      state_.apply(ConstructorRetired{constructor});
      if (seams_.retired) seams_.retired(constructor);
    }
  }

  void start_journal() {
    journal(protocol::JournalStart{job_.versions, config_, manifest_,
                                   protocol::encode_stream_state(state_.stream())},
            [](Service& self) {
              self.perform(on_start(self.job_, self.state_));
              self.pump();
            });
  }

  void perform(Reaction reaction) {
    for (const Event& event : reaction.events) state_.apply(event);
    for (Effect& effect : reaction.effects) std::visit([&](auto& e) { carry_out(e); }, effect);
  }

  // Plan until the runway is full, metadata is missing, a commit or a new tree is on its way to
  // disk, or a user's function is asked.
  void pump() {
    while (!committing_ && !changing_ && !asking_) {
      const int64_t begin_ns = seams_.clock->now_ns();
      Reaction reaction = try_plan(job_, state_, selector_, placer_, draft_);
      probe_.planning_ns += static_cast<uint64_t>(seams_.clock->now_ns() - begin_ns);
      const bool progress =
          !reaction.effects.empty() && std::holds_alternative<Commit>(reaction.effects.front());
      if (progress && runtime::tracing()) {
        const auto& commit = std::get<Commit>(reaction.effects.front());
        runtime::TraceBook::of_process().note("plan", "", begin_ns, seams_.clock->now_ns(),
                                              static_cast<int64_t>(commit.plan->step));
      }
      note_wait(reaction, begin_ns);
      perform(std::move(reaction));
      if (!progress) return;
    }
  }

  void note_wait(const Reaction& reaction, int64_t now_ns) {
    probe_.waits_for_feedback = reaction.waits_for_feedback ? *reaction.waits_for_feedback + 1 : 0;
    if (!reaction.waits_for) {
      if (!reaction.effects.empty()) probe_.waiting_since_ns = 0;
      return;
    }
    ++probe_.waits;
    probe_.waiting_source = *reaction.waits_for;
    if (probe_.waiting_since_ns == 0) probe_.waiting_since_ns = now_ns;
  }

  void carry_out(Send& send) {
    model::Versions versions = job_.versions;
    versions.generation = job_.generation;
    seams_.transport->send(
        {versions, protocol::planner_address(), send.to, std::move(send.message)});
  }

  void carry_out(Commit& commit) {
    OVERLORD_CHECK(!committing_ && commit.plan->step == state_.next_step(),
                   "one plan at a time goes to the journal");
    committing_ = true;
    const model::Plan& plan = *commit.plan;
    journal(protocol::PlanRecord{plan.versions, plan.step, plan.content_hash, plan.plan_hash,
                                 protocol::encode_stream_state(*plan.state_after)},
            [plan = commit.plan](Service& self) {
              self.state_.apply(PlanCommitted{plan});
              OVERLORD_CHECK(self.committing_, "a plan is made durable once");
              self.committing_ = false;
              ++self.probe_.plans;
              self.note_report(*plan);
              self.probe_.next_step = self.state_.next_step();
              self.perform(on_committed(self.job_, self.state_, plan));
              self.pump();
            });
  }

  void note_report(const model::Plan& plan) {
    if (const model::Layer* encoder = plan.encoder()) {
      OVERLORD_CHECK(encoder->report != nullptr, "an encoder's layer is reported");
      const model::PlanReport& own = *encoder->report;
      probe_.encoder.predicted_ns += own.step_ns;
      probe_.encoder.arrival_ns += own.arrival_step_ns;
      probe_.encoder.mean_ns += own.even_step_ns;
      probe_.encoder.bound_ns += own.lower_bound;
    }
    for (uint32_t wait = 0; wait < plan.delays.size(); ++wait) {
      probe_.segments += plan.delays[wait];
      if (wait > 0) probe_.segments_waited += plan.delays[wait];
      probe_.steps_waited += uint64_t{wait} * plan.delays[wait];
    }
    probe_.longest_wait = std::max(probe_.longest_wait.load(), plan.max_delay);
    const model::PlanReport* report = plan.layers.front().report.get();
    if (report == nullptr) return;
    probe_.predicted_ns += report->step_ns;
    probe_.arrival_ns += report->arrival_step_ns;
    probe_.fullest_ns += report->consumer_max;
    probe_.bound_ns += report->lower_bound;
  }

  void carry_out(JournalLateBad& late) {
    const protocol::LateBad bad = late.bad;
    journal(protocol::LateBadRecord{job_.versions, bad.step, bad.id, bad.reason},
            [bad, loader = late.loader](Service& self) {
              self.state_.apply(LateBadCommitted{bad.id});
              ++self.probe_.late_bad;
              Send answer{loader, bad};
              self.carry_out(answer);
              self.check_late_budget(bad);
            });
  }

  void carry_out(JournalFeedback& complete) {
    journal(record_of(complete.feedback),
            [feedback = complete.feedback, last = complete.last](Service& self) {
              self.state_.apply(FeedbackCommitted{feedback});
              ++self.probe_.feedback;
              if (self.seams_.fed_back) self.seams_.fed_back(feedback);
              Send answer{protocol::client_address(last),
                          protocol::ReportAnswered{feedback.step, protocol::Verdict::kAccepted}};
              self.carry_out(answer);
              self.ask_user_rule();
              self.pump();
            });
  }

  void ask_user_rule() {
    perform(ask_rule(job_, state_));
    const PlannerState::Rule& rule = state_.rule();
    const bool waits = rule.stage == PlannerState::Rule::Stage::kAsked && !rule.failure;
    probe_.waits_for_rule = waits ? rule.step + 1 : 0;
  }

  void carry_out(JournalTree& tree) {
    OVERLORD_CHECK(!changing_, "one tree at a time");
    changing_ = true;
    model::Versions versions = job_.versions;
    versions.tree = tree.change.tree.version;
    const TreeChanged& change = tree.change;
    journal(protocol::TreeRecord{versions, change.first_step, change.tree.mesh.axes()},
            [change](Service& self) {
              self.state_.apply(change);
              const StepIndex first = change.first_step;
              if (!self.seams_.tree_changed) return self.tree_ready(first);
              self.seams_.tree_changed(
                  change, [weak = self.weak_from_this(), on_loop = self.seams_.on_loop, first] {
                    on_loop([weak, first] {
                      if (const std::shared_ptr<Service> alive = weak.lock()) {
                        alive->tree_ready(first);
                      }
                    });
                  });
            });
  }

  void carry_out(Ask& ask) {
    OVERLORD_CHECK(seams_.callouts != nullptr, "a strategy with functions needs who asks them");
    OVERLORD_CHECK(!asking_ && ask.request.step == state_.next_step(), "one question at a time");
    asking_ = true;
    const uint64_t question = ++questions_;
    auto request = std::make_shared<const model::CalloutRequest>(ask.request);
    probe_.asked_step = request->step;
    probe_.asked_since_ns = seams_.clock->now_ns();
    probe_.asked_kind = static_cast<uint8_t>(request->kind);
    seams_.callouts->ask(std::move(ask.request),
                         [weak = weak_from_this(), on_loop = seams_.on_loop, request,
                          question](Result<std::vector<int64_t>> answer) {
                           on_loop([weak, request, question, answer = std::move(answer)] {
                             const std::shared_ptr<Service> self = weak.lock();
                             if (self) self->answered(question, *request, answer);
                           });
                         });
  }

  // Once per question: what answers twice is not heard again.
  void answered(uint64_t question, const model::CalloutRequest& request,
                const Result<std::vector<int64_t>>& answer) {
    if (question != questions_ || probe_.asked_kind == 0) return;
    ++probe_.callouts;
    probe_.callout_ns += static_cast<uint64_t>(seams_.clock->now_ns() - probe_.asked_since_ns);
    probe_.asked_kind = 0;
    perform(on_answer(job_, state_, request, answer));
  }

  void carry_out(JournalCallout& answer) {
    journal(answer.record, [record = answer.record](Service& self) {
      self.state_.apply(CalloutAnswered{record.step, record.kind, record.values});
      OVERLORD_CHECK(self.asking_, "an answer to what was asked");
      self.asking_ = false;
      self.pump();
    });
  }

  protocol::FeedbackRecord record_of(const model::StepFeedback& feedback) const {
    return {job_.versions, feedback.step + job_.spec.mixture.controller.delay, feedback};
  }

  void check_late_budget(const protocol::LateBad& bad) {
    OVERLORD_CHECK(bad.id.source < job_.spec.sources.size(), "a bad row of an unknown source");
    const model::Source& source = job_.spec.sources[bad.id.source];
    const uint64_t seen =
        state_.late_bad(bad.id.source) + state_.stream().cursors[bad.id.source].bad;
    const uint32_t pass = state_.stream().cursors[bad.id.source].pass;
    if (seen <= model::bad_rows_budget(source, pass) || state_.failure()) return;
    // A plan that is on its way to the journal will be published; the stream ends behind it.
    fail(first_unplanned(),
         Status(Code::kBudgetExceeded,
                "source " + source.name + ": " + std::to_string(seen) + " bad rows, allowed " +
                    std::to_string(source.bad_rows_allowed) + " a pass; last: " + bad.reason +
                    "; raise bad_rows_allowed or repair the data"));
  }

  // Append -> durable -> apply -> publish (law 6). The journal answers from a thread of its own, so
  // `then` hops back onto this role's loop.
  void journal(const protocol::JournalRecord& record, std::function<void(Service&)> then) {
    seams_.journal->append(
        protocol::encode_record(record),
        [weak = weak_from_this(), on_loop = seams_.on_loop, then = std::move(then)](Status status) {
          on_loop([weak, then, status] {
            const std::shared_ptr<Service> self = weak.lock();
            if (!self) return;
            if (status.ok()) {
              then(*self);
            } else {
              // What was appended behind it fails too, plans among them.
              self->fail(self->state_.next_step(), status.with_context("journal"));
            }
          });
        });
  }

  void fail(StepIndex step, const Status& status) {
    if (state_.failure()) return;
    state_.apply(Failed{step, status});
    for (const ConstructorSlot& slot : state_.constructors()) {
      Send send{slot.address, protocol::StreamFailed{step, status}};
      carry_out(send);
    }
    while (!wishes_.empty()) answer_wish(status);
    OVERLORD_CHECK(state_.failure().has_value(), "a failure is remembered");
  }

  PlannerJob job_;
  PlannerSeams seams_;
  PlannerState state_;
  Digest config_;
  Digest manifest_;
  plan::StepSelector selector_;
  plan::Placer placer_;
  PlannerProbe probe_;
  StepDraft draft_;
  bool committing_ = false;
  bool changing_ = false;     // a new tree is on its way to the journal and to those who need it
  std::deque<Asked> wishes_;  // the first is being granted while changing_
  uint64_t questions_ = 0;
  bool asking_ = false;  // from the question until its answer is durable
};

Planner::Planner(PlannerStart start, PlannerSeams seams)
    : service_(std::make_shared<Service>(std::move(start), std::move(seams))) {}
Planner::~Planner() = default;
void Planner::start() { service_->start(); }
void Planner::receive(const protocol::Envelope& envelope) { service_->receive(envelope); }
void Planner::rebuild_tree(TreeWish wish, TreeAnswer done) {
  service_->rebuild_tree(std::move(wish), std::move(done));
}
const PlannerProbe& Planner::probe() const { return service_->probe(); }
const PlannerState& Planner::state() const { return service_->state(); }

}  // namespace overlord::planner
