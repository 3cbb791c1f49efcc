#include "overlord/protocol/control.h"

#include "overlord/protocol/job_fields.h"
#include "overlord/protocol/message_fields.h"

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

template <>
struct Fields<Hello> {
  static void list(auto& codec, auto& value) {
    auto& [format, name, generation, job, attempt, roles, wire] = value;
    codec(format, name, generation, job, attempt, roles, wire);
  }
};
template <>
struct Fields<Attach> {
  static void list(auto& codec, auto& value) {
    auto& [attempt, job, state, allowed, ranks, process] = value;
    codec(attempt, job, state, allowed, ranks, process);
  }
};
template <>
struct Fields<ConstructorPlace> {
  static void list(auto& codec, auto& value) {
    auto& [bucket, process, generation, wire] = value;
    codec(bucket, process, generation, wire);
  }
};
template <>
struct Fields<SectionDigest> {
  static void list(auto& codec, auto& value) {
    auto& [name, digest] = value;
    codec(name, digest);
  }
};
template <>
struct Fields<Welcome> {
  static void list(auto& codec, auto& value) {
    auto& [versions, state, views, view_table, constructors, source_names, source_digests,
           bad_rows_allowed, sections, prefetch_steps, feedback_kept, metric_driven, host,
           hold_limit_bytes, copy_limit_bytes] = value;
    codec(versions, state, views, view_table, constructors, source_names, source_digests);
    codec(bad_rows_allowed, sections);
    codec(prefetch_steps, feedback_kept, metric_driven, host, hold_limit_bytes, copy_limit_bytes);
  }
};
template <>
struct Fields<Refused> {
  static void list(auto& codec, auto& value) { codec(value.status); }
};
template <>
struct Fields<ProcessRoles> {
  static void list(auto& codec, auto& value) {
    auto& [name, generation, roles, wire, host] = value;
    codec(name, generation, roles, wire, host);
  }
};
template <>
struct Fields<Roster> {
  static void list(auto& codec, auto& value) { codec(value.processes); }
};
template <>
struct Fields<FedBack> {
  static void list(auto& codec, auto& value) { codec(value.feedback); }
};
template <>
struct Fields<RowNoted> {
  static void list(auto& codec, auto& value) {
    auto& [id, row, reason, late] = value;
    codec(id, row, reason, late);
  }
};
template <>
struct Fields<Beat> {
  static void list(auto& codec, auto& value) { codec(value.status); }
};
template <>
struct Fields<StatusAsked> {
  static void list(auto&, auto&) {}
};
template <>
struct Fields<StatusTold> {
  static void list(auto& codec, auto& value) { codec(value.status); }
};
template <>
struct Fields<SegmentShared> {
  static void list(auto& codec, auto& value) {
    auto& [segment, size_bytes] = value;
    codec(segment, size_bytes);
  }
};
template <>
struct Fields<SegmentForgotten> {
  static void list(auto& codec, auto& value) { codec(value.segment); }
};
template <>
struct Fields<LeaseReleased> {
  static void list(auto& codec, auto& value) {
    auto& [number, generation] = value;
    codec(number, generation);
  }
};
template <>
struct Fields<Detach> {
  static void list(auto&, auto&) {}
};
template <>
struct Fields<TreeAsked> {
  static void list(auto& codec, auto& value) {
    auto& [question, axes, step] = value;
    codec(question, axes, step);
  }
};
template <>
struct Fields<TreeAnswered> {
  static void list(auto& codec, auto& value) {
    auto& [question, refused, first_step] = value;
    codec(question, refused, first_step);
  }
};
template <>
struct Fields<TreeTold> {
  static void list(auto& codec, auto& value) {
    auto& [version, first_step, axes, view_table] = value;
    codec(version, first_step, axes, view_table);
  }
};
template <>
struct Fields<TreeTaken> {
  static void list(auto& codec, auto& value) { codec(value.version); }
};

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
