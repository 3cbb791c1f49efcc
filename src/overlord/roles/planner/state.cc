#include "overlord/roles/planner/state.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/protocol/steps_kept.h"

namespace overlord::planner {

PlannerState::PlannerState(model::StreamState stream, std::vector<uint64_t> first_windows,
                           const std::vector<uint32_t>& buckets,
                           std::vector<model::StepFeedback> feedback,
                           protocol::PeerGenerations peers)
    : stream_(std::move(stream)),
      committed_until_(stream_.next_step),
      meta_(first_windows.size()),
      first_(first_windows),
      grants_(first_windows),
      posted_below_(std::move(first_windows)),
      posted_above_(meta_.size()),
      step_rows_(meta_.size(), 0),
      measured_(meta_.size()),
      late_bad_(meta_.size(), 0),
      first_step_(stream_.next_step),
      peers_(std::move(peers)) {
  for (const uint32_t bucket : buckets) {
    constructors_.push_back(
        {protocol::constructor_address(bucket), ConstructorSlot::kNoEnd, first_step_});
  }
  base_.stream = std::make_shared<const model::StreamState>(stream_);
  rule_.step = first_step_;
  for (const model::SourceMemory& source : stream_.controller.sources) {
    rule_.weights.push_back(source.weight);
  }
  for (model::StepFeedback& item : feedback) keep_feedback(std::move(item));
  OVERLORD_CHECK(meta_.size() == stream_.cursors.size(), "one cursor per source");
}

void PlannerState::keep_feedback(model::StepFeedback feedback) {
  if (!feedback.weights.empty()) {
    rule_.weights = feedback.weights;
    rule_.step = std::max(rule_.step, feedback.step + 1);
  }
  feedback_[feedback.step] = std::move(feedback);
}

void PlannerState::take_over(const JournalFold& folded, const std::vector<TreeChanged>& trees) {
  OVERLORD_CHECK(folded.started() && folded.base_step() == stream_.next_step,
                 "a journal is taken over at its start");
  OVERLORD_CHECK(taken_.empty() && unacknowledged_.empty() && trees_.empty(),
                 "a journal is taken over once, before anything else");
  first_step_ = rule_.step = folded.start().first_step;
  content_chain_ = folded.start().content_chain;
  plan_chain_ = folded.start().plan_chain;
  base_.content_chain = content_chain_;
  base_.plan_chain = plan_chain_;
  for (const auto& [step, record] : folded.feedback()) keep_feedback(record.feedback);
  for (const auto& [id, record] : folded.late_bad()) {
    OVERLORD_CHECK(id.source < late_bad_.size(), "a bad row of an unknown source");
    late_rows_[id] = true;
    ++late_bad_[id.source];
  }
  for (const TreeChanged& change : trees) add_tree(change);
  for (const auto& [source, record] : folded.owners()) apply(OwnersChanged{record});
  for (const protocol::PlanRecord& plan : folded.plans()) taken_[plan.step] = plan;
  taken_until_ = folded.next_step();
  OVERLORD_CHECK(taken_until_ - stream_.next_step == taken_.size(),
                 "every plan from the start on is known");
  for (const protocol::CalloutRecord& record : folded.callouts()) {
    taken_answers_[record.step].keep(record.kind, record.values);
  }
  take_answers();
  if (folded.failure()) failure_ = Failed{folded.failure()->step, folded.failure()->status};
}

void PlannerState::add_tree(const TreeChanged& change) {
  if (change.again) trees_.erase(trees_.lower_bound(change.first_step), trees_.end());
  OVERLORD_CHECK(trees_.empty() || trees_.rbegin()->first < change.first_step,
                 "trees follow each other");
  OVERLORD_CHECK(trees_.empty() || trees_.rbegin()->second.version < change.tree.version,
                 "a new tree has a new version");
  trees_[change.first_step] = change.tree;
  for (ConstructorSlot& slot : constructors_) {
    slot.until = std::min(slot.until, change.first_step);
    // Whoever does not acknowledge what it was given may be gone.
    if (change.again) slot.acknowledged = std::max(slot.acknowledged, slot.until);
  }
  for (const uint32_t bucket : change.tree.views->buckets()) {
    constructors_.push_back({protocol::constructor_address(bucket, change.tree.version),
                             ConstructorSlot::kNoEnd,
                             std::max(change.first_step, stream_.next_step)});
  }
}

// What users' functions said of the next step in an earlier term counts in this one.
void PlannerState::take_answers() {
  const auto answers = taken_answers_.extract(stream_.next_step);
  callout_answers_ = answers ? answers.mapped() : model::CalloutAnswers();
}

const protocol::PlanRecord* PlannerState::taken(StepIndex step) const {
  const auto found = taken_.find(step);
  return found == taken_.end() ? nullptr : &found->second;
}

struct PlannerState::Apply {
  PlannerState& self;

  void operator()(const MetaArrived& event) const {
    const SourceIndex source = event.window->first.source;
    OVERLORD_CHECK(source < self.meta_.size(), "metadata of an unknown source");
    if (!self.news(source, event.sequence)) return;  // posted again by a restarted loader
    self.meta_[source].post(event.window);
    for (const uint32_t tokens : event.window->tokens) {
      if (tokens < model::kEmptyRow) self.measured_[source].tokens += tokens;
    }
    self.measured_[source].documents += event.window->rows();
    if (self.starts_range(source, event.sequence)) {
      self.range_starts_[{source, event.sequence}] = {event.window->first.pass,
                                                      event.window->first.position};
    }
    std::set<uint64_t>& above = self.posted_above_[source];
    above.insert(event.sequence);
    uint64_t& below = self.posted_below_[source];
    for (; above.erase(below) == 1; ++below) {
    }
    OVERLORD_CHECK(below <= self.grants_[source], "what is posted was granted");
  }
  void operator()(const GrantRaised& event) const {
    OVERLORD_CHECK(event.source < self.grants_.size(), "a grant of an unknown source");
    OVERLORD_CHECK(event.limit >= self.grants_[event.source], "grants only grow");
    self.grants_[event.source] = event.limit;
  }
  void operator()(const PlanMade& event) const {
    const model::StreamState& after = *event.plan->state_after;
    OVERLORD_CHECK(event.plan->step == self.stream_.next_step, "plans are made in order");
    OVERLORD_CHECK(!self.stream_.ended && after.next_step == event.plan->step + 1,
                   "a plan moves the stream by one step");
    OVERLORD_CHECK(after.cursors.size() == self.meta_.size(), "one cursor per source");
    for (size_t s = 0; s < self.meta_.size(); ++s) {
      const model::SourceCursor& then = self.stream_.cursors[s];
      OVERLORD_CHECK(after.cursors[s].pass >= then.pass &&
                         after.cursors[s].samples >= then.samples &&
                         after.cursors[s].tokens >= then.tokens,
                     "a cursor never goes back");
      uint64_t drawn = after.cursors[s].samples - then.samples;
      // Rows that were passed over had to be posted too.
      if (after.cursors[s].pass == then.pass) {
        drawn = std::max(drawn, after.cursors[s].position - then.position);
      }
      self.step_rows_[s] = std::max(self.step_rows_[s], drawn);
    }
    self.stream_ = after;
    const protocol::PlanRecord* taken = self.taken(event.plan->step);
    OVERLORD_CHECK(taken == nullptr || taken->plan_hash == event.plan->plan_hash,
                   "a plan that was published stays what it is");
    self.taken_.erase(event.plan->step);
    self.take_answers();
    add_to(*event.plan, &self.content_chain_, &self.plan_chain_);
    const bool fresh = self.made_.emplace(event.plan->step, event.plan).second;
    OVERLORD_CHECK(fresh, "a step is planned once");
  }
  void operator()(const PlanCommitted& event) const {
    OVERLORD_CHECK(event.step == self.committed_until_ && event.step < self.stream_.next_step,
                   "plans that were made commit in order");
    ++self.committed_until_;
  }
  static void add_to(const model::Plan& plan, Digest* contents, Digest* plans) {
    *contents = chain(*contents, plan.content_hash);
    *plans = chain(*plans, plan.plan_hash);
  }
  // What plans that everybody may know took into account is in their state from now on.
  void forget_before(const model::StreamState& after) const {
    for (size_t s = 0; s < self.meta_.size(); ++s) {
      self.meta_[s].trim(after.cursors[s].pass, after.cursors[s].position);
    }
    const StepIndex delay = after.controller.delay;
    while (!self.feedback_.empty() && self.feedback_.begin()->first + delay < after.next_step) {
      self.feedback_.erase(self.feedback_.begin());
    }
    while (self.trees_.size() > 1 && std::next(self.trees_.begin())->first <= after.next_step) {
      self.trees_.erase(self.trees_.begin());
    }
  }
  void operator()(const PlansWithdrawn& event) const {
    OVERLORD_CHECK(event.from >= self.kept_from() && !self.remaking(),
                   "what is kept can be planned anew");
    if (event.from >= self.stream_.next_step) return;
    if (event.from < self.unheard()) {
      for (plan::MetaBuffer& buffer : self.meta_) buffer.take_back();
    }
    self.taken_until_ = std::min(self.taken_until_, event.from);
    self.committed_until_ = std::min(self.committed_until_, event.from);
    self.parts_.erase(self.parts_.lower_bound(event.from), self.parts_.end());
    Position now = self.base_;
    for (auto* plans : {&self.kept_, &self.unacknowledged_, &self.made_}) {
      plans->erase(plans->lower_bound(event.from), plans->end());
      for (const auto& [step, plan] : *plans) pass(*plan, &now);
    }
    self.content_chain_ = now.content_chain;
    self.plan_chain_ = now.plan_chain;
    self.stream_ = *now.stream;
    OVERLORD_CHECK(self.stream_.next_step == event.from, "the step that is to be planned anew");
    self.callout_answers_ = {};
  }
  static void pass(const model::Plan& plan, Position* position) {
    OVERLORD_CHECK(plan.step == position->stream->next_step, "plans follow each other");
    position->stream = plan.state_after;
    add_to(plan, &position->content_chain, &position->plan_chain);
  }
  void operator()(const PlanLate&) const { ++self.ahead_; }
  void operator()(const PlanReleased& event) const {
    const auto first = self.made_.begin();
    OVERLORD_CHECK(first != self.made_.end() && first->first == event.step &&
                       event.step < self.committed_until_,
                   "durable plans are released in order");
    const model::Plan& plan = *first->second;
    forget_before(*plan.state_after);
    self.unacknowledged_.insert(self.made_.extract(first));
    forget_acknowledged();  // one that was made again may be done with
  }
  void operator()(const ConstructorAcknowledged& event) const {
    OVERLORD_CHECK(event.acknowledged <= self.unplanned(), "what is acknowledged was planned");
    for (ConstructorSlot& slot : self.constructors_) {
      if (slot.address != event.constructor) continue;
      slot.acknowledged = std::max(slot.acknowledged, event.acknowledged);
    }
    forget_acknowledged();
  }
  void operator()(const ConstructorRetired& event) const {
    const auto retired = [&](const ConstructorSlot& slot) {
      return slot.address == event.constructor;
    };
    OVERLORD_CHECK(std::erase_if(self.constructors_, retired) == 1, "a constructor retires once");
    OVERLORD_CHECK(!self.constructors_.empty(), "somebody takes the next plan");
    forget_acknowledged();
  }
  void forget_acknowledged() const {
    const StepIndex done = self.acknowledged();
    while (!self.unacknowledged_.empty() && self.unacknowledged_.begin()->first < done) {
      self.kept_.insert(self.unacknowledged_.extract(self.unacknowledged_.begin()));
    }
    while (self.kept_.size() > protocol::kStepsKept) {
      pass(*self.kept_.begin()->second, &self.base_);
      self.kept_.erase(self.kept_.begin());
      for (size_t s = 0; s < self.meta_.size(); ++s) {
        const model::SourceCursor& cursor = self.base_.stream->cursors[s];
        self.meta_[s].forget(cursor.pass, cursor.position);
      }
    }
  }
  void operator()(const LateBadTold& event) const {
    OVERLORD_CHECK(event.id.source < self.late_bad_.size(), "a bad row of an unknown source");
    self.late_rows_.emplace(event.id, false);
  }
  void operator()(const LateBadCommitted& event) const {
    OVERLORD_CHECK(!std::exchange(self.late_rows_[event.id], true), "a bad row counts once");
    ++self.late_bad_[event.id.source];
  }
  void operator()(const ReportArrived& event) const {
    const bool fresh = self.parts_[event.part.step].emplace(event.rank, event.part).second;
    OVERLORD_CHECK(fresh && event.part.step < self.stream_.next_step, "a planned step, once");
    self.last_reporters_[event.part.step] = event.rank;
  }
  void operator()(const FeedbackCommitted& event) const {
    self.parts_.erase(event.feedback.step);
    self.last_reporters_.erase(event.feedback.step);
    self.feedback_[event.feedback.step] = event.feedback;
    if (event.feedback.weights.empty()) return;
    OVERLORD_CHECK(event.feedback.step >= self.rule_.step, "a rule decides one step after another");
    self.rule_.step = event.feedback.step + 1;
    self.rule_.stage = Rule::Stage::kIdle;
    self.rule_.weights = event.feedback.weights;
  }
  void operator()(const RuleAsked&) const {
    OVERLORD_CHECK(self.rule_.stage == Rule::Stage::kIdle, "a rule is asked one thing at a time");
    self.rule_.stage = Rule::Stage::kAsked;
  }
  void operator()(const RuleAnswered&) const {
    OVERLORD_CHECK(self.rule_.stage == Rule::Stage::kAsked, "an answer that nobody asked for");
    self.rule_.stage = Rule::Stage::kAnswered;
  }
  void operator()(const RuleFailed& event) const { self.rule_.failure = event.status; }
  void operator()(const TreeChanged& event) const {
    OVERLORD_CHECK(event.first_step >= self.stream_.next_step, "planned steps keep their tree");
    // A function was told of the tree before; the journal forgets what it said too.
    if (event.first_step == self.stream_.next_step) self.callout_answers_ = {};
    self.add_tree(event);
  }
  void operator()(const OwnersMove& event) const {
    OVERLORD_CHECK(self.moving_.insert(event.source).second, "one change of a source at a time");
  }
  void operator()(const OwnersChanged& event) const {
    const model::SourceOwners& owners = event.record.owners;
    OVERLORD_CHECK(owners.source < self.meta_.size() && !owners.ranges.empty(),
                   "owners of an unknown source");
    OVERLORD_CHECK(!self.moving_.contains(owners.source) || event.record.advised > 0 ||
                       owners.ranges.back().first_window >= self.grants_[owners.source],
                   "granted windows keep their owner");
    self.moving_.erase(owners.source);
    self.owners_version_ = std::max(self.owners_version_, event.record.versions.owner_map);
    self.owners_[owners.source] = event.record;
    std::erase_if(self.range_starts_, [&](const auto& one) {
      return one.first.first == owners.source &&
             !self.starts_range(owners.source, one.first.second);
    });
  }
  void operator()(const LoadMeasured& event) const {
    OVERLORD_CHECK(event.slot.kind == protocol::RoleKind::kLoader, "loaders tell their load");
    OVERLORD_CHECK(event.slot.index < self.meta_.size(), "a slot of an unknown source");
    uint64_t& told = self.told_busy_ns_[event.slot];
    if (event.busy_ns < told) told = 0;  // it has begun again
    self.busy_ns_[event.slot.index] += event.busy_ns - told;
    self.measured_[event.slot.index].work_ns += event.busy_ns - told;
    told = event.busy_ns;
  }
  void operator()(const LoadTaken&) const { self.busy_ns_.clear(); }
  void operator()(const TurnForeseen& event) const {
    OVERLORD_CHECK(event.source < self.step_rows_.size(), "a turn to an unknown source");
    uint64_t& rows = self.step_rows_[event.source];
    rows = std::max(rows, event.rows);
  }
  void operator()(const CalloutAnswered& event) const {
    OVERLORD_CHECK(event.step == self.stream_.next_step, "of the step that is being planned");
    self.callout_answers_.keep(event.kind, event.values);
  }
  void operator()(const Failed& event) const {
    OVERLORD_CHECK(!event.status.ok(), "a stream that fails says why");
    if (!self.failure_ || event.step < self.failure_->step) self.failure_ = event;
  }
  void operator()(const TermAsked& event) const {
    OVERLORD_CHECK(event.role.kind == protocol::RoleKind::kLoader ||
                       event.role.kind == protocol::RoleKind::kConstructor,
                   "those promise who act on plans");
    self.unpromised_.insert(event.role);
  }
  void operator()(const TermHeld& event) const {
    OVERLORD_CHECK(event.role.kind != protocol::RoleKind::kPlanner, "a planner promises nobody");
    self.unpromised_.erase(event.role);
  }
  void operator()(const protocol::PeerRestarted& event) const {
    OVERLORD_CHECK(event.generation >= self.peers_.of(event.role), "a generation never goes back");
    self.peers_.apply(event);
  }
};

void PlannerState::apply(const Event& event) { std::visit(Apply{*this}, event); }

bool PlannerState::starts_range(SourceIndex source, uint64_t window) const {
  const std::vector<model::OwnerRange>& ranges = owner_ranges(source);
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const model::OwnerRange& range) { return range.first_window == window; });
}

const std::vector<model::OwnerRange>& PlannerState::owner_ranges(SourceIndex source) const {
  static const std::vector<model::OwnerRange> kNone;
  const auto found = owners_.find(source);
  return found == owners_.end() ? kNone : found->second.owners.ranges;
}

std::vector<model::SourceOwners> PlannerState::owner_changes() const {
  std::vector<model::SourceOwners> out;
  for (const auto& [source, record] : owners_) out.push_back(record.owners);
  return out;
}

uint64_t PlannerState::busy_ns(SourceIndex source) const {
  const auto found = busy_ns_.find(source);
  return found == busy_ns_.end() ? 0 : found->second;
}

std::optional<std::pair<uint32_t, uint64_t>> PlannerState::range_starts(SourceIndex source,
                                                                        uint64_t window) const {
  const auto found = range_starts_.find({source, window});
  if (found == range_starts_.end()) return std::nullopt;
  return found->second;
}

model::PlanPtr PlannerState::made(StepIndex step) const {
  const auto found = made_.find(step);
  return found == made_.end() ? nullptr : found->second;
}

model::PlanPtr PlannerState::unreleased() const {
  if (made_.empty() || made_.begin()->first >= committed_until_) return nullptr;
  return made_.begin()->second;
}

const model::StepFeedback* PlannerState::feedback(StepIndex step) const {
  const auto found = feedback_.find(step);
  return found == feedback_.end() ? nullptr : &found->second;
}

Rank PlannerState::last_reporter(StepIndex step) const { return last_reporters_.at(step); }

const PlannerState::Parts* PlannerState::parts(StepIndex step) const {
  const auto found = parts_.find(step);
  return found == parts_.end() ? nullptr : &found->second;
}

std::optional<protocol::Address> Tree::seat_of(Rank rank) const {
  const model::ClientView& view = views->by_rank.at(rank);
  if (!view.present()) return std::nullopt;
  return protocol::constructor_address(view.bucket, version);
}

const Tree* PlannerState::tree_at(StepIndex step) const {
  const auto after = trees_.upper_bound(step);
  return after == trees_.begin() ? nullptr : &std::prev(after)->second;
}

bool PlannerState::late_bad_durable(const SampleId& id) const {
  const auto found = late_rows_.find(id);
  return found != late_rows_.end() && found->second;
}

bool PlannerState::news(SourceIndex source, uint64_t sequence) const {
  return sequence >= posted_below_[source] && sequence < grants_[source] &&
         !posted_above_[source].contains(sequence);
}

const ConstructorSlot* PlannerState::constructor(const protocol::Address& address) const {
  for (const ConstructorSlot& slot : constructors_) {
    if (slot.address == address) return &slot;
  }
  return nullptr;
}

StepIndex PlannerState::acknowledged() const {
  StepIndex least = ConstructorSlot::kNoEnd;
  for (const ConstructorSlot& slot : constructors_) least = std::min(least, slot.acknowledged);
  return least;
}

}  // namespace overlord::planner
