// Plans as columns: what the bindings of Plan and PlanCursor hand to Python.
#pragma once

#include <nanobind/nanobind.h>

#include "overlord/model/plan.h"
#include "overlord/plan/place/dgraph.h"
#include "overlord/plan/place/graph_filter.h"

namespace overlord::python {

// int64 arrays, one row per segment in bin order.
nanobind::dict plan_columns(const model::Plan& plan);
// What the plan's layer says about itself; None without a cost.
nanobind::object plan_report(const model::Plan& plan);
// The same of the further costs of a vector balance.
nanobind::list further_reports(const model::Plan& plan);
// The encoder's layer: columns of its samples, report, dummies, bytes by pair; None without one.
nanobind::object encoder_table(const model::Plan& plan);
// Rows of plan_columns() that a filter of its graph lets through.
nanobind::object graph_samples(const plan::DGraph& graph, const model::Plan& plan,
                               const plan::SampleFilter& filter);
// Edges, costs and metadata columns of the graph a plan was read out of; None when there is none.
nanobind::object graph_table(const plan::DGraph* graph);

}  // namespace overlord::python
