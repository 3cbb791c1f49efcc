// Binds what a journal tells people.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "errors.h"
#include "fields_dict.h"
#include "overlord/node/journal_look.h"
#include "overlord/node/run_journal.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

nb::list journal_plans(const std::string& path) {
  nb::list plans;
  for (const protocol::JournalRecord& record : unwrap(node::read_records(path))) {
    const auto* plan = std::get_if<protocol::PlanRecord>(&record);
    if (plan == nullptr) continue;
    plans.append(nb::make_tuple(plan->step, plan->content_hash.hex(), plan->plan_hash.hex()));
  }
  return plans;
}

nb::dict look_at_journal(const std::string& folder) {
  Result<node::JournalLook> look = [&] {
    nb::gil_scoped_release free;
    return node::look_at_journal(folder);
  }();
  return python::dict_of(unwrap(std::move(look)));
}

}  // namespace

void bind_journal(nb::module_& m) {
  m.def("journal_plans", &journal_plans, nb::arg("path"),
        nb::sig("def journal_plans(path: str) -> list[tuple[int, str, str]]"),
        "Step, content hash and plan hash of every plan in a journal, in the order of writing.");
  m.def("look_at_journal", &look_at_journal, nb::arg("folder"),
        "What a journal folder tells, and from where on a planner that reads it plans again.");
}

}  // namespace overlord::python
