#include "overlord/columnar/parquet_schema.h"

#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/schema.h>

#include <algorithm>

#include "overlord/columnar/column_types.h"
#include "overlord/columnar/media_columns.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using parquet::schema::GroupNode;
using parquet::schema::Node;
using parquet::schema::NodePtr;
using parquet::schema::PrimitiveNode;
using runtime::quote;

constexpr int32_t kFooterStringBytes = 16 << 20;  // schemas and user metadata of wide tables
constexpr int32_t kFooterEntries = 200'000;
constexpr int32_t kRowGroupStringBytes = 1 << 20;
constexpr int32_t kRowGroupEntries = 10'000;
constexpr size_t kColumnsShown = 20;

// Nodes know their parent, so a tree of our own needs nodes of its own.
NodePtr clone(const Node& node, bool as_bytes) {
  if (node.is_primitive()) {
    const auto& leaf = static_cast<const PrimitiveNode&>(node);
    const auto type = as_bytes ? parquet::LogicalType::None() : leaf.logical_type();
    return PrimitiveNode::Make(leaf.name(), leaf.repetition(), type, leaf.physical_type(),
                               leaf.type_length(), leaf.field_id());
  }
  const auto& group = static_cast<const GroupNode&>(node);
  parquet::schema::NodeVector fields;
  for (int i = 0; i < group.field_count(); ++i) fields.push_back(clone(*group.field(i), false));
  const bool annotated = group.logical_type() != nullptr && !group.logical_type()->is_none();
  return GroupNode::Make(group.name(), group.repetition(), fields,
                         annotated ? group.logical_type() : nullptr, group.field_id());
}

std::string column_names(const GroupNode& root) {
  std::string names;
  for (int i = 0; i < root.field_count(); ++i) {
    if (static_cast<size_t>(i) == kColumnsShown) return names + ", ...";
    names += (i > 0 ? ", " : "") + quote(root.field(i)->name(), 60);
  }
  return names;
}

Result<const Node*> find_column(const ShardJob& job, const GroupNode& root,
                                const std::string& name) {
  const Node* found = nullptr;
  for (int i = 0; i < root.field_count(); ++i) {
    if (root.field(i)->name() != name) continue;
    if (found != nullptr) {
      return job.error("has column " + quote(name) + " twice", Code::kInvalidArgument);
    }
    found = root.field(i).get();
  }
  if (found != nullptr) return found;
  return job.error("has no column " + quote(name) + "; it has " + column_names(root),
                   Code::kNotFound);
}

// The schema that the writer kept beside Parquet's own is looked at for extension types only; what
// is read never goes through it.
Status check_extensions(const ShardJob& job, const parquet::FileMetaData& metadata,
                        const std::vector<std::string>& names) {
  const auto& notes = metadata.key_value_metadata();
  if (notes == nullptr || !notes->Contains("ARROW:schema")) return {};
  std::shared_ptr<arrow::Schema> schema;
  const arrow::Status status = parquet::arrow::FromParquetSchema(
      metadata.schema(), parquet::default_arrow_reader_properties(), notes, &schema);
  if (!status.ok()) return job.error("has a broken Arrow schema: " + status.ToString());
  for (const std::string& name : names) {
    const auto field = schema->GetFieldByName(name);
    if (field == nullptr || !has_extension(*field)) continue;
    return job.error("column " + quote(name) +
                         " has an extension type, which is never loaded; write it as its storage "
                         "type",
                     Code::kInvalidArgument);
  }
  return {};
}

parquet::ReaderProperties limited(int32_t string_bytes, int32_t entries) {
  parquet::ReaderProperties properties;
  properties.set_thrift_string_size_limit(string_bytes);
  properties.set_thrift_container_size_limit(entries);
  properties.set_page_checksum_verification(true);
  return properties;
}

using TypeCheck = Status (*)(const ShardJob& job, const arrow::Field& field);

Result<Projection> project_names(const ShardJob& job, const parquet::FileMetaData& metadata,
                                 const std::vector<std::string>& names, TypeCheck check,
                                 bool nested = false) {
  const GroupNode& root = *metadata.schema()->group_node();
  for (const std::string& name : names) {
    OVERLORD_TRY(const Node* node, find_column(job, root, name));
    static_cast<void>(node);
  }
  OVERLORD_RETURN_IF_ERROR(check_extensions(job, metadata, names));

  Projection projection;
  parquet::schema::NodeVector fields, typed_fields;
  for (int i = 0; i < root.field_count(); ++i) {
    const std::string& name = root.field(i)->name();
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    fields.push_back(clone(*root.field(i), name == job.source->text_column));
    typed_fields.push_back(clone(*root.field(i), false));
  }
  for (int i = 0; i < metadata.num_columns(); ++i) {
    const std::string& name = metadata.schema()->GetColumnRoot(i)->name();
    if (std::find(names.begin(), names.end(), name) != names.end()) projection.leaves.push_back(i);
  }
  parquet::SchemaDescriptor typed;
  typed.Init(GroupNode::Make(root.name(), parquet::Repetition::REQUIRED, typed_fields));
  std::shared_ptr<arrow::Schema> schema;
  const arrow::Status status = parquet::arrow::FromParquetSchema(&typed, &schema);
  if (!status.ok()) return job.error("has a schema Arrow cannot read: " + status.ToString());
  for (const auto& field : schema->fields()) {
    OVERLORD_RETURN_IF_ERROR(check(job, *field));
    projection.description +=
        (projection.description.empty() ? "" : ", ") + describe_column(*field);
  }
  if (!nested && projection.leaves.size() != names.size()) {
    return job.error("wanted columns have more than one leaf", Code::kInvalidArgument);
  }
  projection.schema = std::make_shared<parquet::SchemaDescriptor>();
  projection.schema->Init(GroupNode::Make(root.name(), parquet::Repetition::REQUIRED, fields));
  return projection;
}

}  // namespace

parquet::ReaderProperties footer_properties() {
  return limited(kFooterStringBytes, kFooterEntries);
}

parquet::ReaderProperties row_group_properties() {
  return limited(kRowGroupStringBytes, kRowGroupEntries);
}

Result<Projection> project(const ShardJob& job, const parquet::FileMetaData& metadata) {
  std::vector<std::string> names;
  for (const std::string* name :
       {&job.source->text_column, &job.source->token_column, &job.source->mask_column}) {
    if (!name->empty()) names.push_back(*name);
  }
  return project_names(job, metadata, names, check_row_type);
}

Result<Projection> project_metadata(const ShardJob& job, const parquet::FileMetaData& metadata) {
  if (job.source->metadata_columns.empty()) return Projection();
  return project_names(job, metadata, job.source->metadata_columns, check_metadata_type);
}

Result<Projection> project_media(const ShardJob& job, const parquet::FileMetaData& metadata) {
  if (job.source->media.empty()) return Projection();
  std::vector<std::string> names;
  for (const model::MediaField& field : job.source->media) names.push_back(field.from.front());
  return project_names(job, metadata, names, check_media_type, /*nested=*/true);
}

std::string reduced_metadata(const parquet::FileMetaData& metadata, int index,
                             const Projection& projection) {
  const auto group = metadata.RowGroup(index);
  parquet::WriterProperties::Builder properties;
  properties.created_by(metadata.created_by());  // readers work around old writers by this name
  for (size_t i = 0; i < projection.leaves.size(); ++i) {
    properties.compression(projection.schema->Column(static_cast<int>(i))->path(),
                           group->ColumnChunk(projection.leaves[i])->compression());
  }
  auto file = parquet::FileMetaDataBuilder::Make(projection.schema.get(), properties.build());
  parquet::RowGroupMetaDataBuilder* out = file->AppendRowGroup();
  out->set_num_rows(group->num_rows());
  int64_t total = 0;
  for (const int leaf : projection.leaves) {
    const auto chunk = group->ColumnChunk(leaf);
    const bool dictionary = chunk->has_dictionary_page();
    out->NextColumnChunk()->Finish(chunk->num_values(),
                                   dictionary ? chunk->dictionary_page_offset() : 0, 0,
                                   chunk->data_page_offset(), chunk->total_compressed_size(),
                                   chunk->total_uncompressed_size(), dictionary, false, {}, {});
    total += chunk->total_uncompressed_size();
  }
  out->Finish(total);
  return file->Finish()->SerializeToString();
}

}  // namespace overlord::columnar
