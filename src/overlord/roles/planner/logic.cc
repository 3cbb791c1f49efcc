#include "overlord/roles/planner/logic.h"

#include <algorithm>

#include "overlord/base/check.h"
#include "overlord/plan/mix/mix_schedule.h"
#include "overlord/plan/place/callout.h"
#include "overlord/plan/place/place_tree.h"
#include "overlord/plan/place/row_dealing.h"
#include "overlord/roles/planner/owners.h"
#include "overlord/roles/planner/reports.h"
#include "overlord/roles/planner/term.h"
#include "overlord/roles/planner/tree.h"

namespace overlord::planner {
namespace {

using protocol::Message;

// Windows kept ahead of the cursor of a source that is being drawn from. A source starts with one:
// an idle one costs no more, and the first step does not wait for what the second will need.
constexpr uint64_t kWindowsAhead = 2;
constexpr uint64_t kWindowsAtStart = 1;

void send_to_slots(const model::Owners& owners, SourceIndex source, const Message& message,
                   Reaction* out) {
  for (uint32_t slot = 0; slot < owners.most_slots(); ++slot) {
    out->effects.push_back(Send{protocol::loader_address(source, slot), message});
  }
}

void send_to_constructors(const PlannerState& state, const Message& message, Reaction* out) {
  for (const ConstructorSlot& slot : state.constructors()) {
    out->effects.push_back(Send{slot.address, message});
  }
}

bool of_tree(const ConstructorSlot& slot, const model::Plan& plan) {
  return protocol::tree_of(slot.address) == plan.versions.tree;
}

void raise_grant(const PlannerJob& job, const PlannerState& state, SourceIndex source,
                 uint64_t windows, Reaction* out) {
  OVERLORD_CHECK(windows > 0 && state.posted_below(source) <= state.grant(source),
                 "a grant goes on from what was posted");
  if (state.owners_move(source)) return;  // until it is known whose they are
  const uint64_t limit = state.grant(source) + windows;
  out->events.push_back(GrantRaised{source, limit});
  const std::vector<model::OwnerRange>& ranges = state.owner_ranges(source);
  send_to_slots({job.slots[source], ranges}, source,
                protocol::MetaGrant{limit, state.posted_below(source), ranges}, out);
}

// Does the mixture ask anything of the source within the next steps?
bool weighted_soon(const PlannerJob& job, SourceIndex source, StepIndex step) {
  return plan::may_ask(job.spec.mixture, source, step, step + steps_foreseen(job));
}

// First windows of the sources that will be drawn from soon. The others cost nothing until then.
void wake_sources(const PlannerJob& job, const PlannerState& state, Reaction* out) {
  for (SourceIndex s = 0; s < job.spec.sources.size(); ++s) {
    if (state.posted_target(s) == 0 && weighted_soon(job, s, state.next_step())) {
      raise_grant(job, state, s, kWindowsAtStart, out);
    }
  }
}

// Windows that are made at once where every worker of the source has one.
uint64_t made_at_once(const PlannerJob& job, const PlannerState& state, SourceIndex source) {
  return uint64_t{newest_slots(job, state, source)} * job.spec.sources[source].workers;
}

// Keep enough metadata ahead that planning never waits: the rows that the steps of the runway and
// those ahead of it may draw, at what the hungriest step so far drew, and never less than two
// windows; no more on their way than keeps every worker busy.
void top_up(const PlannerJob& job, const PlannerState& state, SourceIndex source, Reaction* out) {
  const plan::MetaBuffer& buffer = state.meta()[source];
  if (state.step_rows(source) == 0 || state.stream().cursors[source].dry) return;
  const uint64_t at_once = made_at_once(job, state, source);
  OVERLORD_CHECK(at_once > 0, "somebody makes the windows of a source");
  OVERLORD_CHECK(state.posted(source) <= state.posted_target(source), "what is posted was granted");
  const uint64_t coming = state.posted_target(source) - state.posted(source);
  if (coming >= at_once) return;
  const uint64_t wanted =
      state.step_rows(source) * (job.runway + state.ahead() + state.plans_made() + 1);
  // Those that come are taken to be like those that are there.
  const uint64_t of_a_window =
      std::max<uint64_t>(1, buffer.rows() / std::max<size_t>(1, buffer.windows()));
  const uint64_t rows = buffer.rows() + coming * of_a_window;
  const uint64_t lacking = rows < wanted ? (wanted - rows + of_a_window - 1) / of_a_window : 0;
  const uint64_t there = buffer.windows() + coming, least = kWindowsAhead + at_once - 1;
  const uint64_t more = std::max(lacking, there < least ? least - there : 0);
  if (more > 0) raise_grant(job, state, source, std::min(more, at_once - coming), out);
}

// No further step can be planned; what was published is still served.
Reaction stop(const PlannerState& state, const Status& status) {
  Reaction out;
  out.effects.push_back(Fail{state.next_step(), status});
  return out;
}

struct Publication {
  protocol::PlanPublished plan;
  std::vector<plan::DealtRows> rows;
};

Publication publication(const PlannerJob& job, const model::PlanPtr& plan) {
  auto index = model::PlanIndex::make(*plan, static_cast<uint32_t>(job.spec.sources.size()));
  OVERLORD_CHECK(index->buckets.size() == plan->layers.front().buckets, "an index of this plan");
  std::vector<plan::DealtRows> rows =
      plan::deal_rows(*plan, job.slots, job.windows.get(), index.get());
  return {{plan, std::move(index)}, std::move(rows)};
}

// A loader that begins with an empty memory: where to go on, and whatever it may still be asked.
void brief_loader(const PlannerJob& job, const PlannerState& state, const protocol::Address& loader,
                  Reaction* out) {
  OVERLORD_CHECK(loader.kind == protocol::RoleKind::kLoader, "a loader is briefed as one");
  const SourceIndex source = loader.index;
  if (source >= job.slots.size()) return;
  const protocol::MetaGrant grant{state.grant(source), state.posted_below(source),
                                  state.owner_ranges(source)};
  out->effects.push_back(Send{loader, grant});
  for (const auto& [step, plan] : state.unacknowledged()) {
    model::SlotRowsPtr rows =
        plan::rows_of(*plan, job.slots, job.windows.get(), {source, loader.slot});
    if (rows) out->effects.push_back(Send{loader, protocol::RowsPlanned{std::move(rows)}});
  }
}

void brief_constructor(const PlannerJob& job, const PlannerState& state,
                       const protocol::Address& constructor, Reaction* out) {
  const ConstructorSlot* slot = state.constructor(constructor);
  if (slot == nullptr) return;
  // First of all where the stream ends: it must not begin a step that nobody else gets.
  if (const auto& failure = state.failure()) {
    out->effects.push_back(
        Send{constructor, protocol::StreamFailed{failure->step, failure->status}});
  }
  out->effects.push_back(Send{constructor, protocol::Acknowledged{slot->acknowledged}});
  for (const auto& [step, plan] : state.unacknowledged()) {
    if (step < slot->acknowledged || !of_tree(*slot, *plan)) continue;
    out->effects.push_back(Send{constructor, publication(job, plan).plan});
  }
}

struct OnMessage {
  const PlannerJob& job;
  const PlannerState& state;
  const protocol::Envelope& envelope;
  Reaction* out;

  // A role that has not promised is not heard, and gets nothing: what it says may rest on what an
  // earlier term told it meanwhile. It says everything again when it promises.
  bool heard() const {
    const bool promises = std::holds_alternative<protocol::TermPromised>(envelope.message);
    const bool restarted = std::holds_alternative<protocol::PeerRestarted>(envelope.message);
    if (state.unpromised().contains(envelope.from)) return promises || restarted;
    // Reports come again when all plans are made again: before that they would seem too early.
    return envelope.from.kind != protocol::RoleKind::kClient || !state.remaking();
  }
  void operator()(const protocol::MetaPosted& message) const {
    out->events.push_back(MetaArrived{message.sequence, message.window});
  }
  void operator()(const protocol::Acknowledged& message) const {
    // Of more than any term has planned its promise says more, which ends the stream by name
    // (check_promise); what there is before that end is served.
    const StepIndex known = std::min(message.acknowledged, state.unplanned());
    out->events.push_back(ConstructorAcknowledged{envelope.from, known});
  }
  void operator()(const protocol::LateBad& message) const {
    // Told by another fetch, or before a restart: it counts once, and is answered every time.
    if (state.late_bad_durable(message.id)) out->effects.push_back(Send{envelope.from, message});
    if (state.told_bad(message.id)) return;
    out->events.push_back(LateBadTold{message.id});
    out->effects.push_back(JournalLateBad{message, envelope.from});
  }
  void operator()(const protocol::Report& message) const {
    const Rank rank = envelope.from.index;
    if (!message.part.weights.empty()) {
      return take_rule_answer(job, state, rank, message.part, out);
    }
    take_report(job, state, rank, message.part, out);
  }
  void operator()(const protocol::StreamFailed& message) const {
    if (envelope.from.kind == protocol::RoleKind::kClient) {
      return take_rule_failure(job, state, envelope.from.index, message, out);
    }
    if (state.failure() && state.failure()->step <= message.step) return;  // told again
    out->effects.push_back(Fail{message.step, message.status});
  }
  void operator()(const protocol::TermPromised& message) const {
    if (message.term != job.generation) return;  // to a planner before this one
    out->events.push_back(TermHeld{envelope.from});
    for (const protocol::StreamFailed& end : message.ends) (*this)(end);
    check_promise(job, state, envelope.from, message, out);
    if (state.unpromised().empty()) brief(envelope.from);  // it was asked twice
  }
  void operator()(const protocol::PeerRestarted& message) const {
    if (message.generation < state.peers().of(message.role)) return;
    out->events.push_back(message);
    if (state.unpromised().empty()) return brief(message.role);
    if (is_asked(state, message.role)) ask_to_promise(message.role, out);
  }
  void operator()(const protocol::LoadTold& message) const {
    if (envelope.from.kind != protocol::RoleKind::kLoader) return;
    out->events.push_back(LoadMeasured{envelope.from, message.busy_ns});
  }
  void operator()(const protocol::SlotsWished& message) const {
    wish_slots(job, state, message.source, message.slots,
               "wished by rank " + std::to_string(envelope.from.index), out);
  }
  void operator()(const protocol::CalloutTold& message) const {
    out->effects.push_back(Told{message});
  }
  void brief(const protocol::Address& role) const {
    if (role.kind == protocol::RoleKind::kClient) out->effects.push_back(AskAgain{role});
    if (role.kind == protocol::RoleKind::kLoader) brief_loader(job, state, role, out);
    if (role.kind == protocol::RoleKind::kConstructor) brief_constructor(job, state, role, out);
  }
  template <typename Other>
  void operator()(const Other&) const {}  // not for a planner; dropped
};

}  // namespace

Reaction on_message(const PlannerJob& job, const PlannerState& state,
                    const protocol::Envelope& envelope) {
  Reaction out;
  if (state.peers().stale(job.versions, envelope)) return out;
  if (const auto news = state.peers().news(envelope)) out.events.push_back(*news);
  const OnMessage react{job, state, envelope, &out};
  if (react.heard()) std::visit(react, envelope.message);
  return out;
}

Reaction on_failed(const PlannerState& state) {
  Reaction out;
  OVERLORD_CHECK(state.failure().has_value(), "a failure is remembered");
  send_to_constructors(
      state, protocol::StreamFailed{state.failure()->step, state.failure()->status}, &out);
  return out;
}

Reaction on_start(const PlannerJob& job, const PlannerState& state) {
  Reaction out;
  wake_sources(job, state, &out);
  return out;
}

namespace {

// The next step's selection into `draft`; false: something is missing, or it failed, see `out`.
bool select_next(const PlannerJob& job, const PlannerState& state, plan::StepSelector& selector,
                 StepDraft& draft, Reaction* out) {
  if (draft.selection && draft.step == state.next_step()) return true;
  const model::StepFeedback* feedback = nullptr;
  const std::optional<StepIndex> reported =
      plan::feedback_needed(state.stream().controller, state.next_step());
  if (reported) {
    feedback = state.feedback(*reported);
    if (feedback == nullptr) {  // law 1: wait for it, never plan without
      out->waits_for_feedback = reported;
      if (state.rule().failure) *out = stop(state, *state.rule().failure);
      return false;
    }
  }
  Result<plan::Selection> selected =
      selector.step(job.spec, job.source_rows, state.stream(), state.meta(), feedback);
  if (!selected.ok()) {
    *out = stop(state, selected.status());
    return false;
  }
  if (selected->content) {
    draft = {state.next_step(), std::move(*selected)};
    return true;
  }
  OVERLORD_CHECK(!selected->needs.empty(), "a step that is not selected waits for something");
  for (const plan::MetaNeed& need : selected->needs) {
    out->waits_for = need.source;
    if (state.posted(need.source) < state.posted_target(need.source)) continue;
    // Somebody waits: all workers of the source are at it.
    raise_grant(job, state, need.source, made_at_once(job, state, need.source), out);
  }
  return false;
}

}  // namespace

Reaction try_plan(const PlannerJob& job, const PlannerState& state, plan::StepSelector& selector,
                  plan::Placer& placer, StepDraft& draft) {
  Reaction out;
  // What an earlier term has planned is made again, whatever came of it.
  const bool again = state.taken(state.next_step()) != nullptr;
  const bool full = state.next_step() >= state.acknowledged() + job.runway + state.ahead();
  if (state.ended() || (!again && (state.failure() || full))) return out;
  if (!select_next(job, state, selector, draft, &out)) return out;
  OVERLORD_CHECK(draft.step == state.next_step() && draft.selection->content,
                 "the next step is drafted");
  const plan::LossFinder loss(state.stream(), state.meta());
  plan::PlanInputs inputs = inputs_at(job, state, state.next_step());
  inputs.loss = &loss;
  inputs.answers = &state.callout_answers();
  if (job.spec.strategy.has_callout()) {
    Result<std::optional<model::CalloutRequest>> asks = plan::next_callout(
        inputs, state.next_step(), *draft.selection->content, state.callout_answers());
    if (!asks.ok()) return stop(state, asks.status());
    if (*asks) {
      out.effects.push_back(Ask{std::move(**asks)});
      return out;
    }
  }
  plan::Selection selection = std::move(*draft.selection);
  draft.selection.reset();
  Result<model::Plan> plan =
      plan::build_plan(inputs, state.next_step(), std::move(selection), &placer);
  if (!plan.ok()) return stop(state, plan.status());
  OVERLORD_CHECK(plan->step == state.next_step() && plan->state_after != nullptr,
                 "a plan is of the next step");
  plan->owners = state.owner_changes();
  plan->versions.owner_map = state.owners_version();
  out.effects.push_back(Commit{std::make_shared<const model::Plan>(std::move(*plan))});
  return out;
}

Rank asked_rank(const PlannerJob& job, const PlannerState& state, StepIndex step) {
  const Tree* tree = state.tree_at(step);
  OVERLORD_CHECK(!job.ranks.empty(), "somebody reads the stream");
  return tree == nullptr || tree->ranks.empty() ? job.ranks.front() : tree->ranks.front();
}

Reaction on_answer(const PlannerJob& job, const PlannerState& state,
                   const model::CalloutRequest& request,
                   const Result<std::vector<int64_t>>& answer) {
  if (state.failure() || request.step != state.next_step()) return {};
  if (!answer.ok()) {
    const Status& status = answer.status();
    return stop(state,
                {Code::kUserFunction, plan::callout_text(request) + ": " + status.message()});
  }
  OVERLORD_CHECK(job.spec.strategy.has_callout(), "a function that was asked is of the job");
  const Status checked = plan::check_answer(job.spec, request, *answer);
  if (!checked.ok()) return stop(state, checked);
  Reaction out;
  const model::Versions versions = inputs_at(job, state, request.step).versions;
  out.effects.push_back(
      JournalCallout{{versions, request.step, request.kind, request.function, *answer}});
  return out;
}

Reaction on_made(const PlannerJob& job, const PlannerState& state) {
  Reaction out;
  wake_sources(job, state, &out);
  for (SourceIndex s = 0; s < job.spec.sources.size(); ++s) top_up(job, state, s, &out);
  return out;
}

Reaction on_posted(const PlannerJob& job, const PlannerState& state, SourceIndex source) {
  Reaction out;
  if (source < job.spec.sources.size()) top_up(job, state, source, &out);
  return out;
}

model::PlanPtr to_release(const PlannerJob& job, const PlannerState& state) {
  const model::PlanPtr plan = state.unreleased();
  if (!plan || plan->step >= state.acknowledged() + job.runway) return nullptr;
  return plan;
}

bool is_late(const PlannerJob& job, const PlannerState& state) {
  // The first ones have nobody before them who could have hidden the wait.
  const model::PlanPtr plan = to_release(job, state);
  return plan && plan->step >= state.first_step() + job.runway && state.ahead() < job.most_ahead;
}

Reaction on_released(const PlannerJob& job, const PlannerState& state, const model::PlanPtr& plan) {
  Reaction out;
  OVERLORD_CHECK(plan->step < state.uncommitted(), "a plan is durable before it is published");
  OVERLORD_CHECK(state.unacknowledged().size() <= job.runway,
                 "no more is published than the runway");
  Publication published = publication(job, plan);
  OVERLORD_CHECK(published.rows.empty() == plan->layers.front().segments.empty(),
                 "somebody reads what is planned");
  for (const ConstructorSlot& slot : state.constructors()) {
    if (of_tree(slot, *plan)) out.effects.push_back(Send{slot.address, published.plan});
  }
  for (plan::DealtRows& one : published.rows) {
    out.effects.push_back(Send{protocol::loader_address(one.slot.source, one.slot.slot),
                               protocol::RowsPlanned{std::move(one.rows)}});
  }
  return out;
}

}  // namespace overlord::planner
