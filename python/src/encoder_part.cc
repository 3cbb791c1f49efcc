// Binds model/encoder_part.h: arrays are views into the record and keep it alive.
#include "overlord/model/encoder_part.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <vector>

#include "bindings.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using model::EncoderPart;

template <typename T>
nb::object view_of(const std::vector<T>& values, nb::handle owner) {
  const size_t shape[1] = {values.size()};
  return nb::cast(nb::ndarray<nb::numpy, const T, nb::ndim<1>>(values.data(), 1, shape, owner));
}

template <typename T>
auto array(std::vector<T> EncoderPart::* member) {
  return
      [member](nb::handle self) { return view_of(nb::inst_ptr<EncoderPart>(self)->*member, self); };
}

// One number for every rank of the group, as a collective takes them.
template <typename T>
auto splits(std::vector<model::PeerShare> EncoderPart::* member, T model::PeerShare::* value) {
  return [member, value](const EncoderPart& part) {
    auto* values = new std::vector<int64_t>(part.group->size(), 0);
    for (const model::PeerShare& share : part.*member) {
      (*values)[share.peer] = static_cast<int64_t>(share.*value);
    }
    nb::capsule owner(values,
                      [](void* held) noexcept { delete static_cast<std::vector<int64_t>*>(held); });
    const size_t shape[1] = {values->size()};
    return nb::cast(nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>(values->data(), 1, shape, owner));
  };
}

// Six columns of int64: source, pass, position, part, first, units.
auto samples(std::vector<model::Segment> EncoderPart::* member) {
  return [member](const EncoderPart& part) {
    const std::vector<model::Segment>& rows = part.*member;
    auto* values = new std::vector<int64_t>();
    values->reserve(rows.size() * 6);
    for (const model::Segment& row : rows) {
      values->insert(values->end(),
                     {static_cast<int64_t>(row.id.source), static_cast<int64_t>(row.id.pass),
                      static_cast<int64_t>(row.id.position), static_cast<int64_t>(row.part),
                      static_cast<int64_t>(row.first), static_cast<int64_t>(row.count)});
    }
    nb::capsule owner(values,
                      [](void* held) noexcept { delete static_cast<std::vector<int64_t>*>(held); });
    const size_t shape[2] = {rows.size(), 6};
    return nb::cast(nb::ndarray<nb::numpy, int64_t, nb::ndim<2>>(values->data(), 2, shape, owner));
  };
}

}  // namespace

void bind_encoder_part(nb::module_& m) {
  nb::class_<EncoderPart>(m, "EncoderPart", "One rank's part in an encoder, for one microbatch.")
      .def_ro("module", &EncoderPart::module)
      .def_ro("encoder", &EncoderPart::encoder)
      .def_ro("encoders", &EncoderPart::encoders)
      .def_ro("runs", &EncoderPart::runs)
      .def_ro("receives", &EncoderPart::receives)
      .def_ro("dummy", &EncoderPart::dummy)
      .def_ro("bytes_per_unit", &EncoderPart::bytes_per_unit)
      .def_prop_ro(
          "group",
          [](nb::handle self) { return view_of(*nb::inst_ptr<EncoderPart>(self)->group, self); })
      .def_prop_ro("samples", samples(&EncoderPart::samples),
                   "int64 [samples, 6]: source, pass, position, part, first, units.")
      .def_prop_ro("send_order", array(&EncoderPart::send_order))
      .def_prop_ro("send_samples", splits(&EncoderPart::sends, &model::PeerShare::samples))
      .def_prop_ro("send_units", splits(&EncoderPart::sends, &model::PeerShare::units))
      .def_prop_ro("received", samples(&EncoderPart::received), "As `samples`.")
      .def_prop_ro("documents", array(&EncoderPart::documents))
      .def_prop_ro("receive_order", array(&EncoderPart::receive_order))
      .def_prop_ro("receive_samples",
                   splits(&EncoderPart::receives_from, &model::PeerShare::samples))
      .def_prop_ro("receive_units", splits(&EncoderPart::receives_from, &model::PeerShare::units));
}

}  // namespace overlord::python
