#include "overlord/roles/planner/tree.h"

#include <string>

namespace overlord::planner {

Result<Reaction> rebuild_tree(const PlannerJob& job, const PlannerState& state,
                              const model::Mesh& mesh, StepIndex first) {
  const auto differs = [&](const std::string& what, uint32_t now, uint32_t wanted) {
    return invalid_argument("mesh: a tree is rebuilt with as many " + what + " as before, " +
                            std::to_string(now) + ", got " + std::to_string(wanted) + " with " +
                            mesh.text() + "; for another number resume from a state");
  };
  if (mesh.world_size() != job.mesh.world_size()) {
    return differs("ranks", job.mesh.world_size(), mesh.world_size());
  }
  if (plan::bucket_count(mesh) != plan::bucket_count(job.mesh)) {
    return differs("data-parallel groups", plan::bucket_count(job.mesh), plan::bucket_count(mesh));
  }
  OVERLORD_RETURN_IF_ERROR(plan::check_fit(job.spec, mesh, job.delivery));
  OVERLORD_RETURN_IF_ERROR(plan::check_strategy(job.spec, mesh, job.delivery));
  const uint32_t version = state.newest_tree(job.versions.tree) + 1;
  Reaction out;
  out.effects.push_back(JournalTree{
      {first, {mesh, plan::make_views(mesh, job.delivery, version, job.spec.strategy), version}}});
  return out;
}

plan::PlanInputs inputs_at(const PlannerJob& job, const PlannerState& state, StepIndex step) {
  const Tree* tree = state.tree_at(step);
  if (tree == nullptr) return {job.spec, job.mesh, job.delivery, job.views, job.versions};
  model::Versions versions = job.versions;
  versions.tree = tree->version;
  return {job.spec, tree->mesh, job.delivery, tree->views, versions};
}

}  // namespace overlord::planner
