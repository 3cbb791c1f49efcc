// Binds node/functions/transform_desk.h: how batches of rows reach transforms of lane thread.
#include "overlord/node/functions/transform_desk.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "bindings.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using node::TransformDesk;

nb::object take(TransformDesk& desk, double timeout_s) {
  if (desk.closed()) return nb::none();  // without giving the GIL away: Python may be ending
  std::optional<TransformDesk::Question> question = [&] {
    nb::gil_scoped_release free;
    return desk.take(static_cast<int64_t>(std::min(timeout_s, 1e6) * 1000));
  }();
  if (!question) return nb::none();
  nb::list rows;
  for (size_t row = 0; row < question->rows.rows(); ++row) {
    const std::string_view text = question->rows.row(row);
    if (question->binary) {
      rows.append(nb::bytes(text.data(), text.size()));
    } else {
      rows.append(nb::str(text.data(), text.size()));
    }
  }
  return nb::make_tuple(question->number, question->function, rows);
}

}  // namespace

void bind_transform_desk(nb::module_& m) {
  nb::class_<TransformDesk>(m, "TransformDesk",
                            "Where transforms of lane thread find their batches.")
      .def(nb::init<>())
      .def("take", &take, nb::arg("timeout_s"),
           nb::sig("def take(self, timeout_s: float) -> tuple[int, str, list[str | bytes]] | None"),
           "The next batch: its number, name@version of the function, texts, or one frame of bytes "
           "where the function is given microbatches. None after timeout_s, or when it is closed.")
      .def(
          "answer",
          [](TransformDesk& desk, uint64_t number, const nb::bytes& bytes) {
            desk.answer(number, std::string(bytes.c_str(), bytes.size()));
          },
          nb::arg("number"), nb::arg("bytes"),
          "An answer as a worker would send it, less its head.")
      .def(
          "fail",
          [](TransformDesk& desk, uint64_t number, std::string wrong) {
            desk.answer(number, Status(Code::kUserFunction, std::move(wrong)));
          },
          nb::arg("number"), nb::arg("wrong"), "The function has no answer that can be used.")
      .def("close", &TransformDesk::close)
      .def_prop_ro("closed", &TransformDesk::closed);
}

}  // namespace overlord::python
