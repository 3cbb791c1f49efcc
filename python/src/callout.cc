// Binds node/functions/callout_desk.h and node/engine/rule_desk.h: how the planner's questions
// reach Python functions.
#include "callout.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings.h"
#include "overlord/node/engine/rule_desk.h"
#include "overlord/node/functions/callout_desk.h"
#include "owned_array.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using Values = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::vector<int64_t> copied(const Values& values) {
  return {values.data(), values.data() + values.shape(0)};
}

nb::object take(node::CalloutDesk& desk, double timeout_s) {
  if (desk.closed()) return nb::none();  // without giving the GIL away: Python may be ending
  std::optional<node::CalloutDesk::Question> question = [&] {
    nb::gil_scoped_release free;
    return desk.take(static_cast<int64_t>(std::min(timeout_s, 1e6) * 1000));
  }();
  if (!question) return nb::none();
  return nb::make_tuple(question->number, request_dict(question->request));
}

}  // namespace

nb::dict request_dict(const model::CalloutRequest& request) {
  nb::dict out;
  out["kind"] = std::string(model::callout_kind_name(request.kind));
  out["step"] = request.step;
  out["name"] = request.function.name;
  out["version"] = request.function.version;
  out["scale"] = request.function.scale;
  nb::dict columns;
  for (const model::MetaColumn& column : request.columns) {
    columns[nb::cast(column.name)] = owned_array(column.values);
  }
  out["columns"] = columns;
  std::vector<int64_t> pass, position, bin;
  uint32_t at = 0;
  for (size_t i = 0; i < request.samples.size(); ++i) {
    while (i >= request.bin_ends[at]) ++at;
    pass.push_back(request.samples[i].pass);
    position.push_back(static_cast<int64_t>(request.samples[i].position));
    bin.push_back(at);
  }
  out["pass"] = owned_array(std::move(pass));
  out["position"] = owned_array(std::move(position));
  out["bin"] = owned_array(std::move(bin));
  out["bins"] = request.bin_ends.size();
  out["sample_costs"] = owned_array(request.sample_costs);
  out["bin_costs"] = owned_array(request.bin_costs);
  out["consumers"] = request.seats.consumers;
  out["microbatches"] = request.seats.microbatches;
  out["microbatch_size"] = request.seats.microbatch_size;
  out["substeps"] = request.seats.substeps;
  out["stages"] = request.seats.stages;
  return out;
}

Result<std::vector<int64_t>> FunctionCaller::call(const model::CalloutRequest& request) {
  const nb::gil_scoped_acquire held;
  if (!function_.is_valid()) return Status(Code::kCancelled, "the function is gone");
  try {
    const nb::object answer = function_(request_dict(request));
    if (nb::isinstance<nb::str>(answer)) {
      return Status(Code::kUserFunction, nb::cast<std::string>(answer));
    }
    return copied(nb::cast<Values>(answer));
  } catch (const std::exception& error) {
    raised_ = std::current_exception();
    return Status(Code::kUserFunction, error.what());
  }
}

void FunctionCaller::rethrow() {
  if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
}

namespace {

// A question as FunctionDesk takes it: its number, which is the step, and what it asks.
nb::object take_rule(node::RuleDesk& desk, double timeout_s) {
  if (desk.closed()) return nb::none();  // as above
  const std::optional<model::StepFeedback> question = [&] {
    nb::gil_scoped_release free;
    return desk.take(static_cast<int64_t>(timeout_s * 1000));
  }();
  if (!question) return nb::none();
  nb::list losses;
  for (const model::SourceLoss& loss : question->losses) {
    losses.append(nb::make_tuple(loss.source, loss.loss, loss.tokens));
  }
  return nb::make_tuple(question->step,
                        nb::make_tuple(question->step, losses, nb::cast(question->weights)));
}

void bind_rule_desk(nb::module_& m) {
  using node::RuleDesk;
  nb::class_<RuleDesk>(m, "RuleDesk", "Where the planner asks a mixing rule of the user's.")
      .def("take", &take_rule, nb::arg("timeout_s"),
           nb::sig("def take(self, timeout_s: float) -> tuple[int, tuple[int, "
                   "list[tuple[int, int, int]], list[int]]] | None"),
           "A step, its (source, loss sum in 2**-12, tokens) and the newest weights.")
      .def(
          "answer",
          [](RuleDesk& desk, StepIndex step, std::vector<int64_t> weights) {
            desk.answer(step, std::move(weights));
          },
          nb::arg("step"), nb::arg("weights"), "Weights of all sources, in units of 2**-32.")
      .def(
          "fail",
          [](RuleDesk& desk, StepIndex step, std::string wrong) {
            desk.answer(step, Status(Code::kUserFunction, std::move(wrong)));
          },
          nb::arg("step"), nb::arg("wrong"), "The rule has no answer that can be used.")
      .def("close", &RuleDesk::close)
      .def_prop_ro("closed", &RuleDesk::closed);
}

}  // namespace

void bind_callout(nb::module_& m) {
  using node::CalloutDesk;
  bind_rule_desk(m);
  nb::class_<CalloutDesk>(m, "CalloutDesk",
                          "Where the planner leaves its questions to Python functions.")
      .def("take", &take, nb::arg("timeout_s"),
           nb::sig("def take(self, timeout_s: float) -> tuple[int, dict] | None"),
           "The next question and its number; None after timeout_s, or when it is closed.")
      .def(
          "answer",
          [](CalloutDesk& desk, uint64_t number, const Values& values) {
            desk.answer(number, copied(values));
          },
          nb::arg("number"), nb::arg("values"), "Costs of samples, or seats of bins.")
      .def(
          "fail",
          [](CalloutDesk& desk, uint64_t number, std::string wrong) {
            desk.answer(number, Status(Code::kUserFunction, std::move(wrong)));
          },
          nb::arg("number"), nb::arg("wrong"), "The function has no answer that can be used.")
      .def("close", &CalloutDesk::close)
      .def_prop_ro("closed", &CalloutDesk::closed);
}

}  // namespace overlord::python
