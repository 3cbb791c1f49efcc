#include "overlord/protocol/journal_record.h"

#include "overlord/base/bytes.h"
#include "overlord/protocol/feedback_codec.h"

namespace overlord::protocol {
namespace {

constexpr uint8_t kRecordFormat = 1;
enum class Kind : uint8_t {
  kStart = 1,
  kPlan = 2,
  kLateBad = 3,
  kFeedback = 4,
  kTree = 5,
  kCallout = 6,
};

void write_versions(ByteWriter* writer, const model::Versions& versions) {
  writer->u64(versions.job);
  writer->varint(versions.attempt);
  writer->varint(versions.generation);
  writer->varint(versions.tree);
  writer->varint(versions.owner_map);
  writer->varint(versions.mixture);
  writer->varint(versions.format);
}

model::Versions read_versions(ByteReader* reader) {
  model::Versions versions;
  versions.job = reader->u64();
  versions.attempt = static_cast<uint32_t>(reader->varint());
  versions.generation = static_cast<uint32_t>(reader->varint());
  versions.tree = static_cast<uint32_t>(reader->varint());
  versions.owner_map = static_cast<uint32_t>(reader->varint());
  versions.mixture = static_cast<uint32_t>(reader->varint());
  versions.format = static_cast<uint32_t>(reader->varint());
  return versions;
}

struct Encoder {
  ByteWriter* writer;

  void operator()(const JournalStart& start) const {
    writer->u8(static_cast<uint8_t>(Kind::kStart));
    write_versions(writer, start.versions);
    writer->digest(start.config);
    writer->digest(start.manifest);
    writer->text(start.state);
  }
  void operator()(const PlanRecord& plan) const {
    writer->u8(static_cast<uint8_t>(Kind::kPlan));
    write_versions(writer, plan.versions);
    writer->varint(plan.step);
    writer->digest(plan.content_hash);
    writer->digest(plan.plan_hash);
    writer->text(plan.state_after);
  }
  void operator()(const LateBadRecord& bad) const {
    writer->u8(static_cast<uint8_t>(Kind::kLateBad));
    write_versions(writer, bad.versions);
    writer->varint(bad.step);
    writer->varint(bad.id.source);
    writer->varint(bad.id.pass);
    writer->varint(bad.id.position);
    writer->text(bad.reason);
  }
  void operator()(const FeedbackRecord& record) const {
    writer->u8(static_cast<uint8_t>(Kind::kFeedback));
    write_versions(writer, record.versions);
    writer->varint(record.effective);
    write_feedback(writer, record.feedback);
  }
  void operator()(const TreeRecord& tree) const {
    writer->u8(static_cast<uint8_t>(Kind::kTree));
    write_versions(writer, tree.versions);
    writer->varint(tree.first_step);
    writer->varint(tree.axes.size());
    for (const model::Axis& axis : tree.axes) {
      writer->text(axis.name);
      writer->varint(axis.size);
    }
  }
  void operator()(const CalloutRecord& record) const {
    writer->u8(static_cast<uint8_t>(Kind::kCallout));
    write_versions(writer, record.versions);
    writer->varint(record.step);
    writer->u8(static_cast<uint8_t>(record.kind));
    writer->text(record.function.name);
    writer->text(record.function.version);
    writer->zigzag(record.function.scale);
    writer->varint(record.values.size());
    for (const int64_t value : record.values) writer->zigzag(value);
  }
};

JournalRecord read_start(ByteReader* reader) {
  JournalStart start;
  start.versions = read_versions(reader);
  start.config = reader->digest();
  start.manifest = reader->digest();
  start.state = reader->text();
  return start;
}

JournalRecord read_plan(ByteReader* reader) {
  PlanRecord plan;
  plan.versions = read_versions(reader);
  plan.step = reader->varint();
  plan.content_hash = reader->digest();
  plan.plan_hash = reader->digest();
  plan.state_after = reader->text();
  return plan;
}

JournalRecord read_late_bad(ByteReader* reader) {
  LateBadRecord bad;
  bad.versions = read_versions(reader);
  bad.step = reader->varint();
  bad.id.source = static_cast<uint32_t>(reader->varint());
  bad.id.pass = static_cast<uint32_t>(reader->varint());
  bad.id.position = reader->varint();
  bad.reason = reader->text();
  return bad;
}

JournalRecord read_feedback_record(ByteReader* reader) {
  FeedbackRecord record;
  record.versions = read_versions(reader);
  record.effective = reader->varint();
  record.feedback = read_feedback(reader);
  return record;
}

JournalRecord read_tree(ByteReader* reader) {
  TreeRecord tree;
  tree.versions = read_versions(reader);
  tree.first_step = reader->varint();
  const uint64_t axes = reader->varint();
  for (uint64_t i = 0; i < axes && !reader->failed(); ++i) {
    std::string name(reader->text());
    tree.axes.push_back({std::move(name), static_cast<uint32_t>(reader->varint())});
  }
  return tree;
}

JournalRecord read_callout(ByteReader* reader) {
  CalloutRecord record;
  record.versions = read_versions(reader);
  record.step = reader->varint();
  record.kind = static_cast<model::CalloutKind>(reader->u8());
  record.function.name = reader->text();
  record.function.version = reader->text();
  record.function.scale = reader->zigzag();
  record.values.resize(reader->count(1));
  for (int64_t& value : record.values) value = reader->zigzag();
  return record;
}

}  // namespace

std::string encode_record(const JournalRecord& record) {
  ByteWriter writer;
  writer.u8(kRecordFormat);
  std::visit(Encoder{&writer}, record);
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
  const auto kind = static_cast<Kind>(reader.u8());
  JournalRecord record;
  switch (kind) {
    case Kind::kStart:
      record = read_start(&reader);
      break;
    case Kind::kPlan:
      record = read_plan(&reader);
      break;
    case Kind::kLateBad:
      record = read_late_bad(&reader);
      break;
    case Kind::kFeedback:
      record = read_feedback_record(&reader);
      break;
    case Kind::kTree:
      record = read_tree(&reader);
      break;
    case Kind::kCallout:
      record = read_callout(&reader);
      if (const auto kind = std::get<CalloutRecord>(record).kind;
          kind < model::CalloutKind::kCost || kind > model::CalloutKind::kPlan) {
        return bad_data("journal record: unknown kind of call-out");
      }
      break;
    default:
      return bad_data("journal record: unknown kind");
  }
  OVERLORD_RETURN_IF_ERROR(reader.status("journal record"));
  return record;
}

}  // namespace overlord::protocol
