#include "overlord/roles/planner/plan_counts.h"

#include <algorithm>

#include "overlord/base/check.h"

namespace overlord::planner {

void count_plan(const model::Plan& plan, PlannerProbe* probe) {
  if (const model::Layer* encoder = plan.encoder()) {
    OVERLORD_CHECK(encoder->report != nullptr, "an encoder's layer is reported");
    const model::PlanReport& own = *encoder->report;
    probe->encoder.predicted_ns += own.step_ns;
    probe->encoder.arrival_ns += own.arrival_step_ns;
    probe->encoder.mean_ns += own.even_step_ns;
    probe->encoder.bound_ns += own.lower_bound;
  }
  for (uint32_t wait = 0; wait < plan.delays.size(); ++wait) {
    probe->segments += plan.delays[wait];
    if (wait > 0) probe->segments_waited += plan.delays[wait];
    probe->steps_waited += uint64_t{wait} * plan.delays[wait];
  }
  probe->longest_wait = std::max(probe->longest_wait.load(), plan.max_delay);
  const model::PlanReport* report = plan.layers.front().report.get();
  if (report == nullptr) return;
  probe->predicted_ns += report->step_ns;
  probe->arrival_ns += report->arrival_step_ns;
  probe->fullest_ns += report->consumer_max;
  probe->bound_ns += report->lower_bound;
}

}  // namespace overlord::planner
