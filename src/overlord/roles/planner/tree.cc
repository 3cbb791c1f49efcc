#include "overlord/roles/planner/tree.h"

#include <algorithm>
#include <string>

#include "overlord/base/check.h"

namespace overlord::planner {

namespace {

Status check_mesh(const PlannerJob& job, const model::Mesh& mesh) {
  if (mesh.world_size() != job.mesh.world_size()) {
    return invalid_argument("mesh: " + mesh.text() + " has " + std::to_string(mesh.world_size()) +
                            " ranks, the job runs with " + std::to_string(job.mesh.world_size()) +
                            "; for another number of ranks restart from a state, which resumes on "
                            "any mesh");
  }
  OVERLORD_RETURN_IF_ERROR(plan::check_fit(job.spec, mesh, job.delivery));
  return plan::check_strategy(job.spec, mesh, job.delivery);
}

}  // namespace

Result<TreeDecision> decide_tree(const PlannerJob& job, const PlannerState& state,
                                 const TreeWish& wish, StepIndex next) {
  const auto* newest = state.newest();
  const model::Mesh& held = newest ? newest->second.mesh : job.mesh;
  const StepIndex since = newest ? newest->first : state.first_step();
  if (wish.mesh.digest() == held.digest() && wish.step.value_or(since) >= since) {
    return TreeDecision{since};
  }
  OVERLORD_RETURN_IF_ERROR(check_mesh(job, wish.mesh));
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
  const uint32_t version = state.newest_tree(job.versions.tree) + 1;
  const auto views = plan::make_views(wish.mesh, job.delivery, version, job.spec.strategy);
  return TreeDecision{first, JournalTree{{first, {wish.mesh, views, version}}}};
}

TreeChanged tree_of(const PlannerJob& job, const protocol::TreeRecord& record) {
  const Result<model::Mesh> mesh = model::Mesh::make(record.axes);
  OVERLORD_CHECK(mesh.ok(), "a mesh that was journalled is sound");
  const uint32_t version = record.versions.tree;
  const auto views = plan::make_views(*mesh, job.delivery, version, job.spec.strategy);
  return {record.first_step, {*mesh, views, version}};
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
