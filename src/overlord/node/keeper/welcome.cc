#include "overlord/node/keeper/welcome.h"

#include "overlord/protocol/plan_codec.h"

namespace overlord::node {

protocol::Welcome make_welcome(const host::OpenJob& job, const model::RuntimeOptions& runtime,
                               const model::ViewTable& views) {
  protocol::Welcome out;
  out.view_table = protocol::encode_views(views);
  for (const model::SourceManifest& source : job.manifest.sources) {
    out.source_names.push_back(source.name);
    out.source_digests.push_back(source.digest);
  }
  for (const model::Source& source : job.spec.sources) {
    out.bad_rows_allowed.push_back(source.bad_rows_allowed);
  }
  out.sections = job.sections;
  out.prefetch_steps = runtime.prefetch_steps;
  out.feedback_kept =
      job.spec.mixture.controller.delay + runtime.runway + runtime.prefetch_steps + 8;
  out.metric_driven = job.spec.mixture.metric_driven();
  out.hold_limit_bytes = runtime.constructor_budget_bytes;
  out.copy_limit_bytes = runtime.private_copy_limit_bytes;
  return out;
}

Status check_node_can_plan(const host::OpenJob& job, const std::vector<Rank>& ranks) {
  if (job.spec.strategy.has_callout() && !host::all_readers(job, ranks)) {
    return invalid_argument(
        "functions of your own in a strategy need one planner that asks them for all ranks: this "
        "node serves " +
        std::to_string(ranks.size()) + " of " + std::to_string(job.mesh.world_size()) +
        " ranks, and the node of another host plans for itself; set runtime.wire.planner");
  }
  if (job.spec.mixture.metric_driven() && !host::all_readers(job, ranks)) {
    return invalid_argument(
        "a metric-driven mixture needs one planner that hears every report: this node serves " +
        std::to_string(ranks.size()) + " of " + std::to_string(job.mesh.world_size()) +
        " ranks, and the node of another host plans for itself");
  }
  return {};
}

std::string what_is_waited_for(const std::vector<Rank>& gone, const model::JobSpec& spec,
                               const planner::PlannerProbe* planner) {
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  for (const Rank rank : gone) add("rank " + std::to_string(rank) + " is gone");
  if (planner == nullptr) return text;
  if (planner->waiting_since_ns != 0) {
    add("the planner waits for metadata of source " + spec.sources[planner->waiting_source].name);
  }
  if (const uint64_t asked = planner->waits_for_rule) {
    add("the mixing rule was asked after step " + std::to_string(asked - 1) +
        " and has not answered");
  } else if (const uint64_t reported = planner->waits_for_feedback) {
    add("the planner waits for the reports of step " + std::to_string(reported - 1) +
        ": every reporter must call report() for it");
  }
  return text;
}

}  // namespace overlord::node
