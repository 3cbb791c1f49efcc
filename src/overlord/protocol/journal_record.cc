#include "overlord/protocol/journal_record.h"

#include <type_traits>
#include <utility>

#include "overlord/base/bytes.h"
#include "overlord/protocol/feedback_codec.h"
#include "overlord/protocol/fields/field_codec.h"

namespace overlord::protocol {
namespace {

constexpr uint8_t kRecordFormat = 1;
// A record begins with the place of its kind in JournalRecord: a new kind is added at the end.
constexpr uint8_t kFirstKind = 1;

template <typename Codec>
void list_versions(Codec& codec, auto& versions) {
  auto& [job, attempt, generation, tree, owner_map, mixture, format] = versions;
  if constexpr (kIsWriter<Codec>) {
    codec.bytes().u64(job);
  } else {
    job = codec.bytes().u64();
  }
  codec(attempt, generation, tree, owner_map, mixture, format);
}

// Varints: most answers are small.
template <typename Codec>
void list_values(Codec& codec, auto& values) {
  if constexpr (kIsWriter<Codec>) {
    codec.bytes().varint(values.size());
  } else {
    values.resize(codec.bytes().count(1));
  }
  for (auto& value : values) codec(value);
}

// Both ways, in the order in which the fields are written.
template <typename Codec, typename Record>
void list_record(Codec& codec, Record& record) {
  using Kind = std::remove_const_t<Record>;
  list_versions(codec, record.versions);
  if constexpr (std::is_same_v<Kind, JournalStart>) {
    codec(record.config, record.manifest, record.state);
  } else if constexpr (std::is_same_v<Kind, PlanRecord>) {
    codec(record.step, record.content_hash, record.plan_hash, record.state_after);
  } else if constexpr (std::is_same_v<Kind, LateBadRecord>) {
    codec(record.step, record.id, record.reason);
  } else if constexpr (std::is_same_v<Kind, TreeRecord>) {
    codec(record.first_step, record.axes);
  } else if constexpr (std::is_same_v<Kind, CalloutRecord>) {
    codec(record.step, record.kind, record.function);
    list_values(codec, record.values);
  } else {
    static_assert(std::is_same_v<Kind, FeedbackRecord>);
    codec(record.effective);
    if constexpr (kIsWriter<Codec>) {
      write_feedback(&codec.bytes(), record.feedback);
    } else {
      record.feedback = read_feedback(&codec.bytes());
    }
  }
}

template <size_t... kIndex>
JournalRecord record_of(size_t kind, std::index_sequence<kIndex...>) {
  JournalRecord record;
  static_cast<void>(((kind == kIndex && (record.emplace<kIndex>(), true)) || ...));
  return record;
}

}  // namespace

std::string encode_record(const JournalRecord& record) {
  ByteWriter writer;
  writer.u8(kRecordFormat);
  writer.u8(static_cast<uint8_t>(kFirstKind + record.index()));
  FieldWriter codec(&writer);
  std::visit([&](const auto& one) { list_record(codec, one); }, record);
  return writer.take();
}

Result<JournalRecord> decode_record(std::string_view bytes) {
  ByteReader reader(bytes);
  const uint8_t format = reader.u8();
  if (!reader.failed() && format != kRecordFormat) {
    return Status(Code::kVersionMismatch, "journal record: format " + std::to_string(format) +
                                              ", this build reads " +
                                              std::to_string(kRecordFormat));
  }
  constexpr size_t kKinds = std::variant_size_v<JournalRecord>;
  const size_t kind = size_t{reader.u8()} - kFirstKind;
  if (kind >= kKinds) return bad_data("journal record: unknown kind");
  JournalRecord record = record_of(kind, std::make_index_sequence<kKinds>());
  FieldReader codec(&reader);
  std::visit([&](auto& one) { list_record(codec, one); }, record);
  if (const auto* callout = std::get_if<CalloutRecord>(&record);
      callout != nullptr && !is_known(callout->kind)) {
    return bad_data("journal record: unknown kind of call-out");
  }
  OVERLORD_RETURN_IF_ERROR(codec.status("journal record"));
  return record;
}

}  // namespace overlord::protocol
