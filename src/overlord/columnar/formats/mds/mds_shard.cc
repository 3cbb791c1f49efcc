#include "overlord/columnar/formats/mds/mds_shard.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "overlord/base/hash.h"
#include "overlord/columnar/formats/mds/mds_values.h"
#include "overlord/columnar/formats/tar/tar_reader.h"
#include "overlord/columnar/streams/text_stream.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

namespace dom = simdjson::dom;
using runtime::quote;

constexpr uint64_t kWindowBytes = 256 << 10;
constexpr uint64_t kMostConfigBytes = 16 << 20;
constexpr size_t kColumnsShown = 20;
constexpr size_t kMostColumns = 10'000;

uint32_t number_at(std::string_view bytes, uint64_t offset) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string names_of(const std::vector<MdsColumn>& columns) {
  std::string names;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (i == kColumnsShown) return names + ", ...";
    names += (i > 0 ? ", " : "") + quote(columns[i].name, 60) + " (" + columns[i].encoding + ")";
  }
  return names;
}

std::optional<size_t> find(const std::vector<MdsColumn>& columns, std::string_view name) {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name) return i;
  }
  return std::nullopt;
}

// Chooses the columns that the source wants; the name of one that is missing, or empty.
std::string choose(const model::Source& source, MdsColumns* columns) {
  std::string missing;
  const auto want = [&](const std::string& name, std::vector<size_t>* out) {
    const auto found = find(columns->all, name);
    if (found) {
      out->push_back(*found);
    } else if (missing.empty()) {
      missing = name;
    }
  };
  const model::RowSchema& schema = source.schema;
  for (size_t i = 0; i < schema.columns.size(); ++i) {
    const std::string& name = schema.columns[i];
    if (i < schema.expected || find(columns->all, name)) want(name, &columns->rows);
  }
  if (!schema.declared()) {
    const std::string text = text_member(source).extension;
    for (const std::string* name : {&text, &source.token_column, &source.mask_column}) {
      if (!name->empty()) want(*name, &columns->rows);
    }
  }
  for (const std::string& name : source.metadata_columns) want(name, &columns->metadata);
  for (const model::MediaField& field : source.media) want(field.from.front(), &columns->media);
  return missing;
}

std::string text_of(const dom::object& config, const char* key) {
  std::string_view text;
  return config[key].get(text) ? std::string() : std::string(text);
}

// What the shard says of its columns.
Result<std::vector<MdsColumn>> parse_config(const ShardJob& job, std::string_view config) {
  const auto broken = [&](const std::string& what) {
    return job.error("describes its columns in JSON, and that " + what);
  };
  dom::parser parser;
  dom::object object;
  const auto error = parser.parse(simdjson::padded_string(config)).get_object().get(object);
  if (error) return broken(std::string("is broken: ") + simdjson::error_message(error));
  int64_t version = 0;
  if (object["version"].get(version) || version != 2 || text_of(object, "format") != "mds") {
    return job.error("is of format " + quote(text_of(object, "format")) + ", version " +
                         std::to_string(version) + "; known is mds, version 2",
                     Code::kVersionMismatch);
  }
  dom::array lists[3];
  const char* const keys[] = {"column_names", "column_encodings", "column_sizes"};
  for (size_t i = 0; i < 3; ++i) {
    if (object[keys[i]].get(lists[i])) return broken(std::string("has no ") + keys[i]);
  }
  std::vector<MdsColumn> columns;
  auto encoding = lists[1].begin();
  auto size = lists[2].begin();
  for (const dom::element name : lists[0]) {
    std::string_view words[2];
    uint64_t bytes = 0;
    if (encoding == lists[1].end() || size == lists[2].end() || columns.size() == kMostColumns ||
        name.get(words[0]) || (*encoding).get(words[1]) ||
        (!(*size).is_null() && (*size).get(bytes)) ||
        bytes > std::numeric_limits<uint32_t>::max()) {
      return broken("has another encoding or size than column for one of them");
    }
    columns.push_back({std::string(words[0]), std::string(words[1]), static_cast<uint32_t>(bytes)});
    ++encoding;
    ++size;
  }
  if (encoding != lists[1].end() || size != lists[2].end()) {
    return broken("has more encodings or sizes than columns");
  }
  return columns;
}

}  // namespace

uint64_t MdsColumns::sizes_bytes() const {
  const auto says = [](const MdsColumn& column) { return column.size_bytes == 0; };
  return sizeof(uint32_t) * static_cast<uint64_t>(std::count_if(all.begin(), all.end(), says));
}

std::string MdsColumns::cut(std::string_view sizes, uint64_t sample_bytes,
                            std::vector<MdsSpan>* out) const {
  out->clear();
  uint64_t said = 0;
  uint64_t at = sizes_bytes();
  if (sample_bytes < at || sizes.size() < at) {
    return "sample of " + std::to_string(sample_bytes) +
           " bytes has no room for the sizes of its " + std::to_string(all.size()) + " columns";
  }
  for (const MdsColumn& column : all) {
    uint64_t size = column.size_bytes;
    if (size == 0) {
      size = number_at(sizes, said);
      said += sizeof(uint32_t);
    }
    out->push_back({at, size});
    at += size;
  }
  if (at == sample_bytes) return {};
  return "columns of " + std::to_string(at) + " bytes in a sample of " +
         std::to_string(sample_bytes);
}

Status MdsText::open() {
  size_bytes_ = job_.file.fingerprint.size_bytes;
  if (coding_of(job_.file.uri) == Coding::kPlain) return {};
  whole_ = true;
  const auto stream = open_text_stream(job_);
  while (true) {
    OVERLORD_TRY(const std::string_view piece, stream->next());
    if (piece.empty()) break;
    if (text_.size() + piece.size() > job_.source->limits.max_block_bytes) {
      return job_.error("decompresses to more than limits.max_block (" +
                        std::to_string(job_.source->limits.max_block_bytes) +
                        "), and is read as a whole; raise the limit, or write smaller shards");
    }
    text_.append(piece);
  }
  size_bytes_ = text_.size();
  return {};
}

Result<std::string_view> MdsText::at(uint64_t offset, uint64_t size_bytes) {
  if (offset > size_bytes_ || size_bytes > size_bytes_ - offset) {
    return job_.error("has no " + std::to_string(size_bytes) + " bytes at offset " +
                      std::to_string(offset) + "; is it cut short?");
  }
  if (whole_) return std::string_view(text_).substr(offset, size_bytes);
  const bool held = offset >= window_at_ && offset - window_at_ <= window_.size &&
                    size_bytes <= window_.size - (offset - window_at_);
  if (!held) {
    const uint64_t wanted = std::min(std::max(size_bytes, kWindowBytes), size_bytes_ - offset);
    OVERLORD_TRY(window_, job_.read(job_.file, offset, wanted));
    window_at_ = offset;
  }
  return std::string_view(window_.data + (offset - window_at_), size_bytes);
}

Result<MdsHead> read_mds_head(const ShardJob& job, MdsText* text) {
  MdsHead head;
  OVERLORD_TRY(std::string_view bytes, text->at(0, sizeof(uint32_t)));
  const uint64_t samples = number_at(bytes, 0);
  const uint64_t table_end = sizeof(uint32_t) * (samples + 2);
  if (table_end > text->size_bytes()) {
    return job.error("says it has " + std::to_string(samples) + " samples, and its " +
                     std::to_string(text->size_bytes()) +
                     " bytes cannot hold their offsets; is it MDS, and whole?");
  }
  OVERLORD_TRY(bytes, text->at(0, table_end));
  head.scanned = hash64(bytes.data(), bytes.size());
  head.offsets.resize(samples + 1);
  std::memcpy(head.offsets.data(), bytes.data() + sizeof(uint32_t),
              head.offsets.size() * sizeof(uint32_t));
  const uint64_t first = head.offsets.front();
  if (first < table_end || first - table_end > kMostConfigBytes ||
      !std::is_sorted(head.offsets.begin(), head.offsets.end()) ||
      head.offsets.back() != text->size_bytes()) {
    return job.error("has " + std::to_string(text->size_bytes()) +
                     " bytes, and its offsets go from " + std::to_string(first) + " to " +
                     std::to_string(head.offsets.back()) + "; is it MDS, and whole?");
  }
  if (first == table_end) {
    return job.error("does not describe its columns; shards of MosaicML's streaming do",
                     Code::kInvalidArgument);
  }
  OVERLORD_TRY(const std::string_view config, text->at(table_end, first - table_end));
  head.scanned = hash64(config.data(), config.size(), head.scanned);
  OVERLORD_TRY(head.columns.all, parse_config(job, config));
  const std::string missing = choose(*job.source, &head.columns);
  if (!missing.empty()) {
    return job.error("has no column " + quote(missing) + "; it has " + names_of(head.columns.all),
                     Code::kNotFound);
  }
  OVERLORD_RETURN_IF_ERROR(check_mds_columns(job, head.columns));
  return head;
}

std::string keep_mds_columns(const MdsColumns& columns) {
  std::string description;
  for (const std::vector<size_t>* list : {&columns.rows, &columns.metadata, &columns.media}) {
    for (const size_t i : *list) {
      const MdsColumn& column = columns.all[i];
      description += (description.empty() ? "" : ", ") + column.name + ": " + column.encoding;
    }
  }
  ByteWriter out;
  out.text(description);
  out.varint(columns.all.size());
  for (const MdsColumn& column : columns.all) {
    out.text(column.name);
    out.text(column.encoding);
    out.varint(column.size_bytes);
  }
  return out.take();
}

bool kept_mds_columns(std::string_view shard_extra, const model::Source& source, MdsColumns* out) {
  ByteReader in(shard_extra);
  in.text();
  out->all.resize(in.count(3));
  for (MdsColumn& column : out->all) {
    column.name = in.text();
    column.encoding = in.text();
    column.size_bytes = static_cast<uint32_t>(in.varint());
  }
  return !in.failed() && in.at_end() && choose(source, out).empty();
}

}  // namespace overlord::columnar
