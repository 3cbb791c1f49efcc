#include "overlord/plan/place/callout.h"

#include <string>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/plan/cost/cost.h"

namespace overlord::plan {
namespace {

using model::CalloutKind;
using model::CalloutRequest;

Status wrong(const CalloutRequest& request, const std::string& what) {
  return {Code::kUserFunction, callout_text(request) + ": " + what};
}

std::string sample_text(const model::JobSpec& spec, const CalloutRequest& request, size_t row) {
  const SampleId& id = request.samples[row];
  return "row " + std::to_string(row) + " (" + spec.sources[id.source].name + "[" +
         std::to_string(id.pass) + ":" + std::to_string(id.position) + "])";
}

Status check_length(const CalloutRequest& request, size_t answered, size_t wanted,
                    const char* what) {
  if (answered == wanted) return {};
  return wrong(request, "answered " + std::to_string(answered) + " numbers for " +
                            std::to_string(wanted) + " " + what);
}

Status check_costs(const model::JobSpec& spec, const CalloutRequest& request,
                   std::span<const int64_t> costs) {
  OVERLORD_RETURN_IF_ERROR(check_length(request, costs.size(), request.samples.size(), "samples"));
  int64_t sum = 0;
  for (size_t row = 0; row < costs.size(); ++row) {
    if (costs[row] < 0) {
      return wrong(request, "cost of " + sample_text(spec, request, row) +
                                " is negative: " + std::to_string(costs[row]));
    }
    if (costs[row] > kMostStepCost - sum) {
      return wrong(request, "cost of " + sample_text(spec, request, row) + " is too much: " +
                                std::to_string(costs[row]) + " ns; a step may cost " +
                                std::to_string(kMostStepCost) + " ns altogether");
    }
    sum += costs[row];
  }
  return {};
}

Status check_seats(const CalloutRequest& request, std::span<const int64_t> answer) {
  const model::SeatShape& seats = request.seats;
  const size_t bins = request.bin_ends.size();
  OVERLORD_RETURN_IF_ERROR(check_length(request, answer.size(), bins, "bins"));
  OVERLORD_CHECK(seats.substeps > 0 && bins % seats.substeps == 0,
                 "substeps have equally many bins");
  const uint32_t rounds = seats.microbatches / seats.substeps;
  const auto places = int64_t{seats.consumers} * seats.microbatches;
  std::vector<uint32_t> held(static_cast<size_t>(places), 0);
  for (size_t bin = 0; bin < bins; ++bin) {
    const std::string name = "bin " + std::to_string(bin);
    const int64_t seat = answer[bin];
    if (seat < 0 || seat >= places) {
      return wrong(request, name + " was placed nowhere: consumers are 0 to " +
                                std::to_string(seats.consumers - 1) + ", microbatches 0 to " +
                                std::to_string(seats.microbatches - 1));
    }
    const auto microbatch = static_cast<uint32_t>(seat % seats.microbatches);
    const std::string place = "consumer " + std::to_string(seat / seats.microbatches) +
                              ", microbatch " + std::to_string(microbatch);
    const auto substep = static_cast<uint32_t>(bin / (bins / seats.substeps));
    if (microbatch / rounds != substep) {
      return wrong(request, name + " of substep " + std::to_string(substep) + " was placed at " +
                                place + ", which is of another; allowed: microbatches " +
                                std::to_string(substep * rounds) + " to " +
                                std::to_string((substep + 1) * rounds - 1));
    }
    if (++held[static_cast<size_t>(seat)] > seats.microbatch_size) {
      return wrong(request, name + " is one too many for " + place + ", which holds " +
                                std::to_string(seats.microbatch_size));
    }
  }
  return {};
}

CalloutRequest request_of(const PlanInputs& inputs, StepIndex step, CalloutKind kind,
                          const StepContent& content) {
  const model::Strategy& strategy = inputs.spec.strategy;
  const GraphShape shape =
      graph_shape(inputs.spec, content.bin_ends.size(), inputs.mesh, inputs.delivery);
  CalloutRequest request;
  request.kind = kind;
  request.step = step;
  request.function = strategy.function_of(kind);
  request.seats = {shape.consumers, shape.microbatches, shape.microbatch_size, inputs.spec.substeps,
                   inputs.mesh.size("pp")};
  request.bin_ends = content.bin_ends;
  model::MetaColumn tokens{"tokens", {}}, source{"source", {}};
  for (const model::Segment& segment : content.segments) {
    request.samples.push_back(segment.id);
    tokens.values.push_back(segment.count);
    source.values.push_back(segment.id.source);
  }
  OVERLORD_CHECK(content.bin_ends.size() == inputs.spec.bins_at(step),
                 "a function is asked about a whole step");
  request.columns = {std::move(tokens), std::move(source)};
  for (const model::MetaColumn& column : content.columns) {
    if (column.name != "tokens" && column.name != "source") request.columns.push_back(column);
  }
  return request;
}

}  // namespace

Status check_callouts(const model::Strategy& strategy) {
  if (strategy.cost_by.declared() && !strategy.has_cost) {
    return internal_error("a strategy with a cost function says that it has a cost");
  }
  if (strategy.has_callout() && strategy.atoms == model::Atoms::kSlices) {
    return invalid_argument(
        "strategy.hybrid: its model says what sequences cost and it places them; leave functions "
        "of your own out, or leave hybrid out");
  }
  const bool own = strategy.has_own_places();
  if (own && strategy.atoms == model::Atoms::kSamples) {
    return invalid_argument(
        "strategy: a function of your own places whole sequences; leave out balance.atoms: "
        "samples");
  }
  if (own && strategy.group_size != 0) {
    return invalid_argument(
        "strategy.distribute.group_size: a function of your own places over all consumers; leave "
        "group_size out and form the groups in it");
  }
  if (own && (!strategy.further_costs.empty() || strategy.memory_limit > 0)) {
    return invalid_argument(
        strategy.memory_limit > 0
            ? "strategy.balance.memory_limit: a function of your own places, and nothing is moved "
              "after it; leave memory_limit out and keep it there"
            : "strategy.further_costs: method vector evens them out, and here a function of your "
              "own places; leave them out");
  }
  if (strategy.cost_by.declared() && strategy.memory_limit > 0) {
    return invalid_argument(
        "strategy.balance.memory_limit: a cost model of ol.cost says what samples take, and a cost "
        "function does not; leave one of them out");
  }
  if (strategy.balance_by.declared() && strategy.balance != model::BalanceMethod::kArrival) {
    return invalid_argument(
        "strategy.balance: a function of your own stands for the method; leave out one of them");
  }
  if (strategy.balance_by.declared() && !strategy.has_cost) {
    return invalid_argument("strategy.balance: needs a cost; add strategy.cost");
  }
  if (strategy.plan_by.declared() &&
      (strategy.balance_by.declared() || strategy.balance != model::BalanceMethod::kArrival ||
       strategy.order != model::OrderMethod::kKeep)) {
    return invalid_argument(
        "strategy.plan_raw: stands for balance and order; leave those out, or leave plan_raw out");
  }
  return {};
}

Result<std::optional<CalloutRequest>> next_callout(const PlanInputs& inputs, StepIndex step,
                                                   const StepContent& content,
                                                   const model::CalloutAnswers& answers) {
  const model::Strategy& strategy = inputs.spec.strategy;
  if (strategy.cost_by.declared() && !answers.costs) {
    return std::optional(request_of(inputs, step, CalloutKind::kCost, content));
  }
  if (!strategy.has_own_places() || answers.seats) return std::optional<CalloutRequest>();
  const CalloutKind kind = strategy.plan_by.declared() ? CalloutKind::kPlan : CalloutKind::kBalance;
  CalloutRequest request = request_of(inputs, step, kind, content);
  if (!strategy.has_cost) return std::optional(std::move(request));
  if (answers.costs) {
    request.sample_costs = *answers.costs;
  } else {
    OVERLORD_TRY(request.sample_costs,
                 segment_costs(strategy.cost, content.segments, content.columns));
  }
  OVERLORD_TRY(request.bin_costs, bin_costs(strategy.cost, request.sample_costs, content.bin_ends));
  return std::optional(std::move(request));
}

std::string callout_text(const CalloutRequest& request) {
  return std::string(model::callout_kind_name(request.kind)) + " function " +
         request.function.name + " (version " + request.function.version + "), step " +
         std::to_string(request.step);
}

Status check_answer(const model::JobSpec& spec, const CalloutRequest& request,
                    std::span<const int64_t> answer) {
  return request.kind == CalloutKind::kCost ? check_costs(spec, request, answer)
                                            : check_seats(request, answer);
}

Status set_answered_costs(const model::Strategy& strategy, std::span<const int64_t> costs,
                          DGraph* graph) {
  OVERLORD_CHECK(costs.size() == graph->samples(), "an answer was checked before it is used");
  OVERLORD_TRY(std::vector<int64_t> bins, bin_costs(strategy.cost, costs, graph->bin_ends()));
  graph->set_costs({costs.begin(), costs.end()}, std::move(bins));
  return {};
}

}  // namespace overlord::plan
