#include "overlord/columnar/formats/parquet/parquet_schema.h"

#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/schema.h>

#include <algorithm>

#include "overlord/columnar/formats/arrow/column_types.h"
#include "overlord/columnar/formats/arrow/table_schema_text.h"
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

// Of an image that lies between texts only one thing is wanted: whether it is there. Its path says
// that as well as its bytes.
bool is_spare(const model::Source& source, const Node& leaf) {
  const Node* parent = leaf.parent();
  if (leaf.name() != "bytes" || parent == nullptr || parent->parent() == nullptr) return false;
  const Node* root = parent;
  while (root->parent()->parent() != nullptr) root = root->parent();
  return source.schema.text == model::RowText::kInterleaved &&
         root->name() == source.schema.columns[1] &&
         static_cast<const GroupNode*>(parent)->field_count() > 1;
}

// Nodes know their parent, so a tree of our own needs nodes of its own. `as_bytes`: text has no
// logical type there; `source`: its spare leaves are left out, null: none is.
NodePtr clone(const Node& node, bool as_bytes, const model::Source* source) {
  if (node.is_primitive()) {
    const auto& leaf = static_cast<const PrimitiveNode&>(node);
    const bool bytes = as_bytes && leaf.physical_type() == parquet::Type::BYTE_ARRAY;
    const auto type = bytes ? parquet::LogicalType::None() : leaf.logical_type();
    return PrimitiveNode::Make(leaf.name(), leaf.repetition(), type, leaf.physical_type(),
                               leaf.type_length(), leaf.field_id());
  }
  const auto& group = static_cast<const GroupNode&>(node);
  parquet::schema::NodeVector fields;
  for (int i = 0; i < group.field_count(); ++i) {
    if (source != nullptr && is_spare(*source, *group.field(i))) continue;
    fields.push_back(clone(*group.field(i), as_bytes, source));
  }
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

Status check_type(const ShardJob& job, const arrow::Field& field) {
  return job.source->schema.declared() ? check_schema_type(job, field) : check_row_type(job, field);
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

// Whether text in a column is judged row by row, by us.
bool is_text(const model::Source& source, const std::string& name) {
  const std::vector<std::string>& columns = source.schema.columns;
  return name == source.text_column ||
         std::find(columns.begin(), columns.end(), name) != columns.end();
}

bool has_column(const parquet::FileMetaData& metadata, const std::string& name) {
  return metadata.schema()->group_node()->FieldIndex(name) >= 0;
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

  const bool text = check == check_type;  // other columns are read as they are
  const model::Source* const source = text ? job.source : nullptr;
  Projection projection;
  parquet::schema::NodeVector fields, typed_fields;
  for (int i = 0; i < root.field_count(); ++i) {
    const std::string& name = root.field(i)->name();
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    fields.push_back(clone(*root.field(i), text && is_text(*job.source, name), source));
    typed_fields.push_back(clone(*root.field(i), false, source));
  }
  for (int i = 0; i < metadata.num_columns(); ++i) {
    const std::string& name = metadata.schema()->GetColumnRoot(i)->name();
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    if (text && is_spare(*source, *metadata.schema()->Column(i)->schema_node())) continue;
    projection.leaves.push_back(i);
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
  const model::RowSchema& schema = job.source->schema;
  for (size_t i = 0; i < schema.columns.size(); ++i) {
    if (i < schema.expected || has_column(metadata, schema.columns[i])) {
      names.push_back(schema.columns[i]);
    }
  }
  if (schema.declared()) return project_names(job, metadata, names, check_type, /*nested=*/true);
  for (const std::string* name :
       {&job.source->text_column, &job.source->token_column, &job.source->mask_column}) {
    if (!name->empty()) names.push_back(*name);
  }
  return project_names(job, metadata, names, check_type);
}

Result<Projection> project_metadata(const ShardJob& job, const parquet::FileMetaData& metadata) {
  if (job.source->metadata_columns.empty()) return Projection();
  return project_names(job, metadata, job.source->metadata_columns, check_metadata_type);
}

Result<Projection> project_media(const ShardJob& job, const parquet::FileMetaData& metadata) {
  if (job.source->media.empty()) return Projection();
  return project_names(job, metadata, media_column_names(*job.source), check_media_type,
                       /*nested=*/true);
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
