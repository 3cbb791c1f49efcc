// What the bindings of pictures and of sounds share: a prepared chain, and the functions around it.
// Media cross the border as bytes and NumPy arrays. `Kind` says what is different:
//   Prepared, Scratch; parse(text), probe(bytes); dict_of(header or geometry), array_of(...)
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <string_view>
#include <utility>

#include "errors.h"

namespace overlord::python {

inline std::string_view view_of(const nanobind::bytes& bytes) {
  return {bytes.c_str(), bytes.size()};
}

// A chain with the memory of the thread that calls it.
template <typename Kind>
class ChainHandle {
 public:
  using Prepared = typename Kind::Prepared;

  explicit ChainHandle(const std::string& text)
      : chain_(unwrap(Prepared::prepare(unwrap(Kind::parse(text))))) {}

  std::string text() const {
    return chain_text(chain_.chain());  // found by its argument
  }

  nanobind::tuple run(const nanobind::bytes& bytes, uint64_t key) const {
    Result<typename Prepared::Outcome> outcome = typename Prepared::Outcome();
    {
      nanobind::gil_scoped_release free;
      thread_local typename Kind::Scratch scratch;
      outcome = chain_.run(view_of(bytes), key, scratch);
    }
    typename Prepared::Outcome made = unwrap(std::move(outcome));
    const nanobind::dict geometry = Kind::dict_of(made.geometry);
    return nanobind::make_tuple(Kind::array_of(made.geometry, std::move(made.bytes)), geometry);
  }

  nanobind::dict planned_size(const nanobind::bytes& bytes) const {
    return Kind::dict_of(unwrap(chain_.planned_size(unwrap(Kind::probe(view_of(bytes))))));
  }

 private:
  Prepared chain_;
};

// probe_KIND, decode_KIND, run_KIND_chain and the class CLASS.
template <typename Kind>
void bind_chain(nanobind::module_& m, const std::string& kind, const char* class_name,
                const char* decoded) {
  namespace nb = nanobind;
  using Chain = ChainHandle<Kind>;
  m.def(("probe_" + kind).c_str(),
        [](const nb::bytes& bytes) { return Kind::dict_of(unwrap(Kind::probe(view_of(bytes)))); },
        nb::arg("bytes"), "What the headers say, without decoding.");
  m.def(("decode_" + kind).c_str(),
        [](const nb::bytes& bytes, const std::string& options) {
          return nb::object(Chain("decode " + options).run(bytes, 0)[0]);
        },
        nb::arg("bytes"), nb::arg("options") = "", decoded);
  m.def(("run_" + kind + "_chain").c_str(),
        [](const nb::bytes& bytes, const std::string& chain, uint64_t key) {
          return Chain(chain).run(bytes, key);
        },
        nb::arg("bytes"), nb::arg("chain"), nb::arg("key") = 0,
        "(array, geometry) of a chain in its text form.");
  nb::class_<Chain>(m, class_name, "A prepared chain; may be used by many threads at once.")
      .def(nb::init<const std::string&>(), nb::arg("text"))
      .def_prop_ro("text", &Chain::text, "The text form with every value named.")
      .def("run", &Chain::run, nb::arg("bytes"), nb::arg("key") = 0, "(array, geometry)")
      .def("planned_size", &Chain::planned_size, nb::arg("bytes"),
           "The geometry that run() will deliver, from the header alone.");
}

}  // namespace overlord::python
