// The fields of journal records that travel otherwise than their list says (see
// fields/field_codec.h).
#pragma once

#include "overlord/protocol/fields/message_fields.h"
#include "overlord/protocol/journal/journal_record.h"

namespace overlord::protocol {

// Answers are small whole numbers, one for each sample of a step: varints, not rows of eight bytes.
template <>
struct Fields<CalloutRecord> {
  template <typename Codec>
  static void list(Codec& codec, auto& value) {
    auto& [versions, step, kind, function, values] = value;
    codec(versions, step, kind, function);
    if constexpr (kIsWriter<Codec>) {
      codec.bytes().varint(values.size());
      for (const int64_t one : values) codec(one);
    } else if constexpr (kIsReader<Codec>) {
      values.resize(codec.bytes().count(1));
      for (int64_t& one : values) codec(one);
    } else {
      codec(values);
    }
  }
};

}  // namespace overlord::protocol
