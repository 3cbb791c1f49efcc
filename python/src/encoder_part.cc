// Binds model/encoder_part.h: arrays are views into the record and keep it alive.
#include "overlord/model/encoder_part.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <utility>
#include <vector>

#include "bindings.h"
#include "owned_array.h"

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
    std::vector<int64_t> values(part.group->size(), 0);
    for (const model::PeerShare& share : part.*member) {
      values[share.peer] = static_cast<int64_t>(share.*value);
    }
    return owned_array(std::move(values));
  };
}

// Six columns of int64: source, pass, position, part, first, units.
auto samples(std::vector<model::Segment> EncoderPart::* member) {
  return [member](const EncoderPart& part) {
    const std::vector<model::Segment>& rows = part.*member;
    OwnedTable table(6, rows.size());
    for (const model::Segment& row : rows) {
      table.add(row.id.source, row.id.pass, row.id.position, row.part, row.first, row.count);
    }
    return std::move(table).array();
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
