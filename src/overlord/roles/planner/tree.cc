#include "overlord/roles/planner/tree.h"

#include <algorithm>
#include <set>
#include <string>

#include "overlord/base/check.h"

namespace overlord::planner {

namespace {

const std::vector<Rank>& ranks_held(const PlannerState& state) {
  static const std::vector<Rank> kAll;
  return state.newest() ? state.newest()->second.ranks : kAll;
}

// All of them in their order are what a job begins with.
std::vector<Rank> told_apart(const PlannerJob& job, const std::vector<Rank>& ranks) {
  if (ranks.size() != job.mesh.world_size()) return ranks;
  return std::is_sorted(ranks.begin(), ranks.end()) ? std::vector<Rank>() : ranks;
}

Status check_ranks(const PlannerJob& job, const TreeWish& wish) {
  const uint32_t world = job.mesh.world_size();
  const size_t places = wish.ranks.empty() ? world : wish.ranks.size();
  if (wish.mesh.world_size() != places) {
    return invalid_argument(
        "mesh: " + wish.mesh.text() + " has " + std::to_string(wish.mesh.world_size()) +
        " ranks, and it is for " + std::to_string(places) +
        (wish.ranks.empty() ? ": all of the job; say which are there with ranks=, or restart from "
                              "a state, which resumes on any mesh"
                            : "; name one rank for every place of the mesh"));
  }
  std::set<Rank> seen;
  for (const Rank rank : wish.ranks) {
    if (rank < world && seen.insert(rank).second) continue;
    return invalid_argument("ranks: " + std::to_string(rank) + " is named twice or is no rank of " +
                            "the job, which began with 0 to " + std::to_string(world - 1));
  }
  return {};
}

Status check_mesh(const PlannerJob& job, const TreeWish& wish) {
  OVERLORD_RETURN_IF_ERROR(check_ranks(job, wish));
  OVERLORD_RETURN_IF_ERROR(plan::check_fit(job.spec, wish.mesh, job.delivery));
  return plan::check_strategy(job.spec, wish.mesh, job.delivery);
}

// Steps that were planned are placed anew.
Result<StepIndex> first_again(const PlannerJob& job, const PlannerState& state,
                              const TreeWish& wish, StepIndex next) {
  if (job.spec.mixture.metric_driven() || job.spec.strategy.encoder) {
    return invalid_argument(
        "ranks: they come and go while a job runs where its mixture follows no losses and its "
        "strategy has no encoder; restart from a state, which resumes on any mesh");
  }
  const StepIndex first = wish.step.value_or(state.acknowledged());
  if (first >= state.kept_from() && first <= next) return first;
  return invalid_argument("step: ranks can come and go at steps " +
                          std::to_string(state.kept_from()) + " to " + std::to_string(next) +
                          " now, not at " + std::to_string(first));
}

}  // namespace

Result<TreeDecision> decide_tree(const PlannerJob& job, const PlannerState& state,
                                 const TreeWish& wish, StepIndex next) {
  const auto* newest = state.newest();
  const model::Mesh& held = newest ? newest->second.mesh : job.mesh;
  const StepIndex since = newest ? newest->first : state.first_step();
  const bool again = changes_ranks(job, state, wish);
  if (!again && wish.mesh.digest() == held.digest() && wish.step.value_or(since) >= since) {
    return TreeDecision{since};
  }
  OVERLORD_RETURN_IF_ERROR(check_mesh(job, wish));
  const uint32_t version = state.newest_tree(job.versions.tree) + 1;
  const Tree tree = {wish.mesh,
                     plan::make_views(wish.mesh, job.delivery, version, job.spec.strategy,
                                      told_apart(job, wish.ranks), job.mesh.world_size()),
                     version, told_apart(job, wish.ranks)};
  if (again) {
    OVERLORD_TRY(const StepIndex first, first_again(job, state, wish, next));
    return TreeDecision{first, JournalTree{{first, tree, true}}};
  }
  const StepIndex earliest = newest ? std::max(next, since + 1) : next;
  const StepIndex first = wish.step.value_or(earliest);
  if (first < earliest) {
    return invalid_argument("step: " + std::to_string(first) +
                            " is planned already, for the mesh " + held.text() +
                            "; the first that can be for another is " + std::to_string(earliest) +
                            ": ask further ahead, or name no step");
  }
  if (state.ended() && first >= state.unplanned())
    return invalid_argument("mesh: the last step of the stream is planned");
  OVERLORD_CHECK(first >= next && (!newest || first > newest->first),
                 "planned steps keep their tree");
  return TreeDecision{first, JournalTree{{first, tree}}};
}

bool changes_ranks(const PlannerJob& job, const PlannerState& state, const TreeWish& wish) {
  return told_apart(job, wish.ranks) != ranks_held(state);
}

std::shared_ptr<const protocol::ResumeState> position_before(const JournalFold& fold,
                                                             StepIndex step) {
  if (step < fold.base_step() || step > fold.next_step()) return nullptr;
  auto out = std::make_shared<protocol::ResumeState>();
  out->content_chain = fold.start().content_chain;
  out->plan_chain = fold.start().plan_chain;
  const std::string* state = &fold.start().state;
  for (const protocol::PlanRecord& plan : fold.plans()) {
    if (plan.step >= step) break;
    out->content_chain = chain(out->content_chain, plan.content_hash);
    out->plan_chain = chain(out->plan_chain, plan.plan_hash);
    state = &plan.state_after;
  }
  Result<model::StreamState> stream = protocol::decode_stream_state(*state);
  OVERLORD_CHECK(stream.ok() && stream->next_step == step, "a state that was journalled is sound");
  out->state = std::move(*stream);
  return out;
}

TreeChanged tree_of(const PlannerJob& job, const protocol::TreeRecord& record) {
  const Result<model::Mesh> mesh = model::Mesh::make(record.axes);
  OVERLORD_CHECK(mesh.ok(), "a mesh that was journalled is sound");
  const uint32_t version = record.versions.tree;
  const auto views = plan::make_views(*mesh, job.delivery, version, job.spec.strategy, record.ranks,
                                      job.mesh.world_size());
  return {record.first_step, {*mesh, views, version, record.ranks}, record.again};
}

std::vector<protocol::Address> to_retire(const PlannerState& state) {
  std::vector<protocol::Address> out;
  for (const ConstructorSlot& slot : state.constructors()) {
    if (slot.acknowledged >= slot.until) out.push_back(slot.address);
  }
  return out;
}

plan::PlanInputs inputs_at(const PlannerJob& job, const PlannerState& state, StepIndex step) {
  const Tree* tree = state.tree_at(step);
  if (tree == nullptr) return {job.spec, job.mesh, job.delivery, job.views, job.versions};
  OVERLORD_CHECK(tree->views != nullptr && tree->version > job.versions.tree,
                 "a rebuilt tree has views and a new version");
  model::Versions versions = job.versions;
  versions.tree = tree->version;
  return {job.spec, tree->mesh, job.delivery, tree->views, versions};
}

}  // namespace overlord::planner
