#include "overlord/protocol/journal/journal_record.h"

#include <utility>

#include "overlord/base/bytes.h"
#include "overlord/protocol/journal/record_fields.h"

namespace overlord::protocol {
namespace {

// A record begins with the place of its kind in JournalRecord: a new kind is added at the end.
constexpr uint8_t kFirstKind = 1;

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
  std::visit([&](const auto& one) { codec(one); }, record);
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
  std::visit([&](auto& one) { codec(one); }, record);
  OVERLORD_RETURN_IF_ERROR(codec.status("journal record"));
  return record;
}

}  // namespace overlord::protocol
