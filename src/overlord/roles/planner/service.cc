// Carries out the planner's effects: sends, journals, and applies what has become durable.
#include <algorithm>
#include <deque>

#include "overlord/base/check.h"
#include "overlord/protocol/journal/record_chain.h"
#include "overlord/protocol/state_codec.h"
#include "overlord/roles/planner/demand.h"
#include "overlord/roles/planner/owners.h"
#include "overlord/roles/planner/plan_counts.h"
#include "overlord/roles/planner/reports.h"
#include "overlord/roles/planner/role.h"
#include "overlord/roles/planner/term.h"
#include "overlord/roles/planner/tree.h"
#include "overlord/runtime/trace.h"

namespace overlord::planner {
namespace {

// A journal holds one state and the differences of so many plans at most, however long the run.
constexpr uint64_t kPlansPerCompaction = 256;

}  // namespace

class Planner::Service : public std::enable_shared_from_this<Planner::Service> {
 public:
  Service(PlannerStart start, PlannerSeams seams)
      : job_(std::move(start.job)),
        seams_(std::move(seams)),
        state_(std::move(start.state), std::move(start.first_windows), job_.buckets,
               std::move(start.feedback), std::move(start.peers)),
        fold_(start.folded ? *start.folded : JournalFold()),
        questions_(uint64_t{job_.generation} << 32) {
    probe_.term = job_.generation;
    start.folded ? take_over() : begin(start);
  }

  // What was folded is written anew, in the segment of this term; only then does anybody hear of
  // it.
  void start() {
    compact([](Service& self) {
      self.started_ = true;
      if (self.taken_over_) return self.open_term();
      self.perform(on_start(self.job_, self.state_));
      self.perform(self.demand_.foresee(self.state_));
      self.pump();
    });
  }

  void receive(const protocol::Envelope& envelope) {
    if (superseded_) return;
    const auto* posted = std::get_if<protocol::MetaPosted>(&envelope.message);
    const bool opening = !state_.unpromised().empty();
    perform(on_message(job_, state_, envelope));
    if (posted) {
      ++probe_.meta_windows;
      perform(on_posted(job_, state_, posted->window->first.source));
    }
    if (opening && state_.unpromised().empty()) opened();
    ask_user_rule();
    if (!changing_) retire();
    perform(demand_.heard(state_, seams_.clock->now_ns()));
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

  void begin(PlannerStart& start) {
    const Status started =
        fold_.apply(protocol::JournalStart{versions(),
                                           start.config,
                                           start.manifest,
                                           std::move(start.run),
                                           state_.next_step(),
                                           protocol::encode_stream_state(state_.stream()),
                                           {},
                                           {}});
    OVERLORD_CHECK(started.ok(), "a state that was made here can be read");
    for (const auto& [step, feedback] : state_.pending_feedback()) keep(record_of(feedback));
    for (const protocol::OwnersRecord& record : owners_at_start(job_, state_)) {
      state_.apply(OwnersChanged{record});
      keep(record);
    }
  }

  // --- A term that goes on from a journal -------------------------------------------------------

  void take_over() {
    taken_over_ = true;
    std::vector<TreeChanged> trees;
    for (const protocol::TreeRecord& record : fold_.trees()) trees.push_back(tree_of(job_, record));
    state_.take_over(fold_, trees);
    for (const protocol::Address& constructor : fold_.retired()) {
      state_.apply(ConstructorRetired{constructor});
    }
    for (const Event& event : must_promise(job_, state_)) state_.apply(event);
    fold_.open_term(versions());
    probe_.next_step = state_.unplanned();
    probe_.late_bad = fold_.late_bad().size();
  }

  void open_term() {
    if (seams_.fed_back) {
      for (const auto& [step, record] : fold_.feedback()) seams_.fed_back(record.feedback);
    }
    if (seams_.retired) {
      for (const protocol::Address& constructor : fold_.retired()) seams_.retired(constructor);
    }
    // Its constructors may not be there: whoever was to make them may have died with the planner.
    if (!fold_.trees().empty()) {
      changing_ = true;
      tell_tree(tree_of(job_, fold_.trees().back()));
    }
    perform(planner::open_term(state_));
  }

  void opened() {
    perform(on_opened(job_, state_));
    check_late_budgets();
    finish_remaking();
  }

  // Once, when all that earlier terms had planned is planned again.
  void finish_remaking() {
    if (!taken_over_ || state_.remaking()) return;
    taken_over_ = false;
    perform(on_remade(job_));
    grant_wishes();
  }

  // One tree at a time. Who wishes the same as the one before gets the same answer.
  void grant_wishes() {
    while (!changing_ && !taken_over_ && !failing_ && !wishes_.empty()) {
      // Plans that somebody may have heard of keep the tree they were made with, and a step that a
      // function is asked about the tree that it was told of, unless who is asked may be gone.
      const bool again = changes_ranks(job_, state_, wishes_.front().wish);
      if (again && asking_ && !question_) return;  // its answer is on its way to the journal
      const StepIndex next = asking_ && !again ? state_.unplanned() + 1 : state_.unheard();
      Result<TreeDecision> decision = state_.failure()
                                          ? Result<TreeDecision>(state_.failure()->status)
                                          : decide_tree(job_, state_, wishes_.front().wish, next);
      if (decision.ok() && decision->change) {
        granting_ = true;
        if (again) forget_question();
        return carry_out(*decision->change);
      }
      answer_wish(decision.ok() ? Result<StepIndex>(decision->first_step)
                                : Result<StepIndex>(decision.status()));
    }
  }

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
    if (std::exchange(granting_, false)) answer_wish(first_step);
    perform(planner::open_term(state_));  // its constructors may not have been there to be asked
    retire();
    grant_wishes();
    pump();
  }

  void retire() {
    if (state_.remaking()) return;
    for (const protocol::Address& constructor : to_retire(state_)) {
      if (!retiring_.insert(constructor).second) continue;
      journal(protocol::RetiredRecord{versions(), constructor}, [constructor](Service& self) {
        self.state_.apply(ConstructorRetired{constructor});
        if (self.seams_.retired) self.seams_.retired(constructor);
        self.pump();
      });
    }
  }

  void perform(Reaction reaction) {
    for (const Event& event : reaction.events) state_.apply(event);
    for (Effect& effect : reaction.effects) std::visit([&](auto& e) { carry_out(e); }, effect);
  }

  // Plan until enough is planned ahead, metadata is missing, a new tree is on its way to disk, or a
  // user's function is asked. A plan need not wait for those before it to be durable: the journal
  // keeps their order, and one sync serves all that wait for it.
  void pump() {
    while (true) {
      release();
      if (!started_ || changing_ || asking_ || failing_ || superseded_) return;
      if (!state_.unpromised().empty()) return;
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
    if (superseded_ || (taken_over_ && !started_)) return;
    seams_.transport->send(
        {versions(), protocol::planner_address(), send.to, std::move(send.message)});
  }

  model::Versions versions() const {
    model::Versions versions = job_.versions;
    versions.generation = job_.generation;
    return versions;
  }

  void carry_out(Commit& commit) {
    OVERLORD_CHECK(commit.plan->step == state_.next_step(), "plans go to the journal in order");
    const model::Plan& plan = *commit.plan;
    if (state_.taken(plan.step) != nullptr) return commit_again(commit.plan);
    made(commit.plan);
    ++plans_since_compaction_;
    const StepIndex done = std::min(state_.kept_from(), plan.step);
    journal(protocol::PlanRecord{plan.versions, plan.step, done, plan.content_hash, plan.plan_hash,
                                 protocol::encode_stream_state(*plan.state_after)},
            [plan = commit.plan](Service& self) {
              if (self.state_.made(plan->step) != plan) return;  // withdrawn
              self.state_.apply(PlanCommitted{plan->step});
              if (is_late(self.job_, self.state_)) self.state_.apply(PlanLate{});
              self.pump();
            });
    if (plans_since_compaction_ >= kPlansPerCompaction) compact([](Service&) {});
  }

  // An earlier term has made it durable; it must be the same.
  void commit_again(const model::PlanPtr& plan) {
    if (const Status same = check_remade(state_, *plan); !same.ok()) {
      Fail failed{plan->step, same};
      return carry_out(failed);
    }
    made(plan);
    state_.apply(PlanCommitted{plan->step});
    release();
    ++probe_.plans_remade;
    finish_remaking();
  }

  void made(const model::PlanPtr& plan) {
    state_.apply(PlanMade{plan});
    perform(demand_.foresee(state_));
    perform(on_made(job_, state_));
  }

  void release() {
    while (const model::PlanPtr plan = to_release(job_, state_)) {
      state_.apply(PlanReleased{plan->step});
      ++probe_.plans;
      count_plan(*plan, &probe_);
      probe_.next_step = std::max(probe_.next_step.load(), plan->step + 1);
      perform(on_released(job_, state_, plan));
    }
  }

  void carry_out(JournalLateBad& late) {
    const protocol::LateBad bad = late.bad;
    journal(protocol::LateBadRecord{job_.versions, bad.step, bad.id, bad.reason},
            [bad, loader = late.loader](Service& self) {
              self.state_.apply(LateBadCommitted{bad.id});
              ++self.probe_.late_bad;
              Send answer{loader, bad};
              self.carry_out(answer);
              self.check_late_budget(bad.id.source, bad.reason);
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
    withdraw_from(tree.change.first_step);
    model::Versions versions = job_.versions;
    versions.tree = tree.change.tree.version;
    const TreeChanged& change = tree.change;
    journal(protocol::TreeRecord{versions, change.first_step, change.tree.mesh.axes(),
                                 change.tree.ranks, change.again},
            [change](Service& self) {
              self.state_.apply(change);
              self.tell_tree(change);
            });
  }

  void carry_out(JournalOwners& owners) {
    journal(owners.record, [record = owners.record](Service& self) {
      self.state_.apply(OwnersChanged{record});
      self.grant_on();
      self.pump();
    });
  }

  // Slots that have just come are given as much to do as those that were there.
  void grant_on() {
    for (Reaction more = on_made(job_, state_); !more.events.empty();
         more = on_made(job_, state_)) {
      perform(std::move(more));
    }
  }

  // Plans that are in the journal, or on their way, and that nobody has heard of: the record of the
  // tree takes them back there too.
  void withdraw_from(StepIndex step) {
    if (step >= state_.next_step()) return;
    state_.apply(PlansWithdrawn{step});
    selector_ = {};
    draft_ = {};
  }

  void tell_tree(TreeChanged change) {
    const StepIndex first = change.first_step;
    if (change.again) change.restart = position_before(fold_, first);
    if (!seams_.tree_changed) return tree_ready(first);
    seams_.tree_changed(change, [weak = weak_from_this(), on_loop = seams_.on_loop, first] {
      on_loop([weak, first] {
        if (const std::shared_ptr<Service> alive = weak.lock()) alive->tree_ready(first);
      });
    });
  }

  void carry_out(Ask& ask) {
    OVERLORD_CHECK(!asking_ && ask.request.step == state_.next_step(), "one question at a time");
    asking_ = true;
    question_ = std::make_shared<const model::CalloutRequest>(std::move(ask.request));
    ++questions_;
    probe_.asked_step = question_->step;
    probe_.asked_since_ns = seams_.clock->now_ns();
    probe_.asked_kind = static_cast<uint8_t>(question_->kind);
    put_question();
  }

  void put_question() {
    if (seams_.callouts == nullptr) {
      probe_.asked_rank = asked_rank(job_, state_, question_->step);
      Send send{protocol::client_address(probe_.asked_rank),
                protocol::CalloutAsked{questions_, question_}};
      return carry_out(send);
    }
    seams_.callouts->ask(*question_, [weak = weak_from_this(), on_loop = seams_.on_loop,
                                      number = questions_](Result<std::vector<int64_t>> answer) {
      on_loop([weak, number, answer = std::move(answer)] {
        if (const std::shared_ptr<Service> self = weak.lock()) self->answered(number, answer);
      });
    });
  }

  void carry_out(AskAgain& again) {
    if (!question_ || seams_.callouts != nullptr) return;
    if (again.client == protocol::client_address(probe_.asked_rank)) put_question();
  }

  void carry_out(Told& effect) {
    auto& [question, values, failure] = effect.told;
    answered(question, failure ? Result<std::vector<int64_t>>(*failure) : std::move(values));
  }

  // Whoever was asked may be gone. What it still answers is not heard.
  void forget_question() {
    if (!question_) return;
    question_.reset();
    asking_ = false;
    probe_.asked_kind = 0;
  }

  // Once per question: what answers twice is not heard again.
  void answered(uint64_t question, const Result<std::vector<int64_t>>& answer) {
    if (question != questions_ || !question_) return;
    ++probe_.callouts;
    probe_.callout_ns += static_cast<uint64_t>(seams_.clock->now_ns() - probe_.asked_since_ns);
    probe_.asked_kind = 0;
    perform(on_answer(job_, state_, *std::exchange(question_, nullptr), answer));
  }

  void carry_out(JournalCallout& answer) {
    journal(answer.record, [record = answer.record](Service& self) {
      self.state_.apply(CalloutAnswered{record.step, record.kind, record.values});
      OVERLORD_CHECK(self.asking_, "an answer to what was asked");
      self.asking_ = false;
      self.grant_wishes();
      self.pump();
    });
  }

  protocol::FeedbackRecord record_of(const model::StepFeedback& feedback) const {
    return {job_.versions, feedback.step + job_.spec.mixture.controller.delay, feedback};
  }

  void check_late_budget(SourceIndex number, const std::string& last) {
    OVERLORD_CHECK(number < job_.spec.sources.size(), "a bad row of an unknown source");
    const model::Source& source = job_.spec.sources[number];
    const uint64_t seen = state_.late_bad(number) + state_.stream().cursors[number].bad;
    const uint32_t pass = state_.stream().cursors[number].pass;
    if (seen <= model::bad_rows_budget(source, pass) || state_.failure() || failing_) return;
    // Plans that are on their way to the journal will be published; the stream ends behind them.
    Fail exceeded{
        state_.unplanned(),
        Status(Code::kBudgetExceeded,
               "source " + source.name + ": " + std::to_string(seen) + " bad rows, allowed " +
                   std::to_string(source.bad_rows_allowed) + " a pass; last: " + last +
                   "; raise bad_rows_allowed or repair the data")};
    carry_out(exceeded);
  }

  // The term before may have died between a row and what follows from it.
  void check_late_budgets() {
    std::map<SourceIndex, std::string> last;
    for (const auto& [id, record] : fold_.late_bad()) last[id.source] = record.reason;
    for (const auto& [source, reason] : last) check_late_budget(source, reason);
  }

  // --- The journal ------------------------------------------------------------------------------

  // Append -> durable -> apply -> publish (law 6). The journal answers from a thread of its own, so
  // `then` hops back onto this role's loop.
  void journal(const protocol::JournalRecord& record, std::function<void(Service&)> then) {
    keep(record);
    seams_.journal->append(writer_.write(record), when_durable(std::move(then)));
  }

  // All that the journal tells, in as few records as it takes.
  void compact(std::function<void(Service&)> then) {
    plans_since_compaction_ = 0;
    forget_owners();
    std::vector<std::string> records;
    for (const protocol::JournalRecord& record : fold_.records()) {
      records.push_back(writer_.write(record));
    }
    seams_.journal->compact(std::move(records), when_durable(std::move(then)));
  }

  // Who has read windows that no plan can name any more.
  void forget_owners() {
    if (state_.owners().empty()) return;
    const Result<model::StreamState> base = protocol::decode_stream_state(fold_.start().state);
    OVERLORD_CHECK(base.ok(), "a state that was folded can be read");
    for (const protocol::OwnersRecord& record : forgettable(state_, *base)) {
      if (state_.owners_move(record.owners.source)) continue;
      state_.apply(OwnersChanged{record});
      keep(record);
    }
  }

  // When it is appended, not when it is durable: what is compacted then must tell it too.
  void keep(const protocol::JournalRecord& record) {
    const Status folded = fold_.apply(record);
    OVERLORD_CHECK(folded.ok(), "what is journalled can be folded");
  }

  std::function<void(Status)> when_durable(std::function<void(Service&)> then) {
    return
        [weak = weak_from_this(), on_loop = seams_.on_loop, then = std::move(then)](Status status) {
          on_loop([weak, then, status] {
            const std::shared_ptr<Service> self = weak.lock();
            if (!self || self->superseded_) return;
            if (status.ok()) return then(*self);
            if (status.code() == Code::kUnavailable) return self->step_down(status);
            self->journal_failed(status.with_context("journal"));
          });
        };
  }

  // What was appended behind it fails too, plans among them. If an earlier end was on its way
  // there, some have heard of that one.
  void journal_failed(const Status& status) {
    const StepIndex step = state_.uncommitted();
    if (failing_ && failing_->step < step) return failed(failing_->step, failing_->status);
    failed(step, status);
  }

  // Another planner has the journal. It speaks to everybody; whatever we said would be a lie.
  void step_down(const Status& status) {
    superseded_ = true;
    if (seams_.superseded) seams_.superseded(status);
  }

  // Journalled first: a planner that comes after this one must end the stream before the same step.
  void carry_out(Fail& fail) {
    if (state_.failure() && state_.failure()->step <= fail.step) return;
    if (failing_ && failing_->step <= fail.step) return;
    failing_ = fail;
    journal(protocol::FailureRecord{versions(), fail.step, fail.status},
            [fail](Service& self) { self.failed(fail.step, fail.status); });
  }

  void failed(StepIndex step, const Status& status) {
    if (state_.failure() && state_.failure()->step <= step) return;
    state_.apply(Failed{step, status});
    failing_.reset();
    if (state_.unpromised().empty()) perform(on_failed(state_));
    while (!wishes_.empty()) answer_wish(status);
    pump();  // what an earlier term has planned
  }

  PlannerJob job_;
  PlannerSeams seams_;
  PlannerState state_;
  JournalFold fold_;  // of all that was appended
  protocol::JournalWriter writer_;
  plan::StepSelector selector_;
  plan::Placer placer_;
  Demand demand_{job_};
  PlannerProbe probe_;
  StepDraft draft_;
  bool started_ = false;         // the journal tells of this term
  std::optional<Fail> failing_;  // on its way to the journal: no plan behind it
  bool taken_over_ = false;      // and what earlier terms have planned is not all made again
  bool superseded_ = false;
  uint64_t plans_since_compaction_ = 0;
  std::set<protocol::Address> retiring_;  // on the way to the journal
  bool changing_ = false;  // a new tree is on its way to the journal and to those who need it
  std::deque<Asked> wishes_;
  bool granting_ = false;                                  // the first of them
  std::shared_ptr<const model::CalloutRequest> question_;  // null: none, or it is answered
  uint64_t questions_;   // the number of the newest, over all terms
  bool asking_ = false;  // from the question until its answer is durable
};

Planner::Planner(PlannerStart start, PlannerSeams seams) {
  start.job.most_ahead = seams.journal->most_plans_ahead();
  service_ = std::make_shared<Service>(std::move(start), std::move(seams));
}
Planner::~Planner() = default;
void Planner::start() { service_->start(); }
void Planner::receive(const protocol::Envelope& envelope) { service_->receive(envelope); }
void Planner::rebuild_tree(TreeWish wish, TreeAnswer done) {
  service_->rebuild_tree(std::move(wish), std::move(done));
}
const PlannerProbe& Planner::probe() const { return service_->probe(); }
const PlannerState& Planner::state() const { return service_->state(); }

}  // namespace overlord::planner
