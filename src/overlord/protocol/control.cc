#include "overlord/protocol/control.h"

#include "overlord/protocol/fields/job_fields.h"
#include "overlord/protocol/fields/message_fields.h"

namespace overlord::protocol {
namespace {

template <size_t I = 0>
void read_alternative(size_t kind, FieldReader* fields, Control* out) {
  if constexpr (I < std::variant_size_v<Control>) {
    if (kind != I) return read_alternative<I + 1>(kind, fields, out);
    (*fields)(out->emplace<I>());
  } else {
    fields->refuse();
  }
}

}  // namespace

std::string encode_control(const Control& control) {
  ByteWriter writer;
  writer.u8(static_cast<uint8_t>(control.index()));
  FieldWriter fields(&writer);
  std::visit([&](const auto& value) { fields(value); }, control);
  return writer.take();
}

Result<Control> decode_control(std::string_view bytes) {
  ByteReader reader(bytes);
  FieldReader fields(&reader);
  const size_t kind = reader.u8();
  Control control;
  read_alternative(kind, &fields, &control);
  OVERLORD_RETURN_IF_ERROR(fields.status("control message"));
  return control;
}

}  // namespace overlord::protocol
