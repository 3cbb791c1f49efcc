#include "overlord/columnar/index/source_index.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "overlord/base/enum_names.h"
#include "overlord/columnar/branches.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/reader_factory.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/columnar/index/source_files.h"
#include "overlord/runtime/parallel.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;

constexpr uint32_t kVerifyThreads = 4;  // the store answers several questions at once

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

std::string listed(const std::vector<model::MediaField>& fields) {
  std::string out;
  for (const model::MediaField& field : fields) {
    out += (out.empty() ? "" : "; ") + field.name + ": " + listed(field.from);
    if (field.many) out += " (many)";
    if (!field.root.empty()) out += " in " + field.root;
    if (field.has_part()) out += " from " + field.start + " to " + field.end;
  }
  return out;
}

// What of the source's config differs from what the index was made with; empty when nothing does.
std::string difference(const IndexConfig& config, const model::Source& source) {
  const auto differs = [](const char* field, const std::string& then, const std::string& now) {
    return std::string(field) + " was " + quote(then) + ", is " + quote(now);
  };
  if (config.format != source.format) {
    return differs("format", enum_name(config.format), enum_name(source.format));
  }
  if (config.text_column != model::text_place(source)) {
    return differs("text column", config.text_column, model::text_place(source));
  }
  if (config.token_column != model::token_place(source)) {
    return differs("token column", config.token_column, model::token_place(source));
  }
  if (config.mask_column != source.mask_column) {
    return differs("mask column", config.mask_column, source.mask_column);
  }
  if (config.metadata_columns != source.metadata_columns) {
    return differs("metadata", listed(config.metadata_columns), listed(source.metadata_columns));
  }
  if (config.max_document_bytes != source.limits.max_document_bytes) {
    return differs("max_document_bytes", std::to_string(config.max_document_bytes),
                   std::to_string(source.limits.max_document_bytes));
  }
  if (config.max_block_bytes != source.limits.max_block_bytes) {
    return differs("max_block_bytes", std::to_string(config.max_block_bytes),
                   std::to_string(source.limits.max_block_bytes));
  }
  if (config.media != media_places_of(source)) {
    return differs("media", listed(config.media), listed(source.media));
  }
  if (!source.media.empty() && config.max_media_bytes != source.limits.max_media_bytes) {
    return differs("max_media_bytes", std::to_string(config.max_media_bytes),
                   std::to_string(source.limits.max_media_bytes));
  }
  if (!config.counted) return {};
  if (!source.text_column.empty() && config.tokenizer_digest != model::text_digest(source)) {
    return differs("tokenizer", config.tokenizer_digest, model::text_digest(source));
  }
  if (config.vocabulary != source.vocabulary) {
    return differs("vocabulary", std::to_string(config.vocabulary),
                   std::to_string(source.vocabulary));
  }
  return {};
}

std::string how_changed(const model::Fingerprint& then, const model::Fingerprint& now) {
  if (now.size_bytes != then.size_bytes) {
    return std::string(now.size_bytes > then.size_bytes ? "grew from " : "shrank from ") +
           std::to_string(then.size_bytes) + " to " + std::to_string(now.size_bytes) + " bytes";
  }
  if (now.content != then.content) return "was replaced (same size, other content)";
  return "was written again (other modification time)";
}

Status source_changed(const model::Source& source, const std::string& uri, const std::string& how) {
  return {Code::kSourceChanged, "source " + quote(source.name) + ", shard " + quote(uri) + " " +
                                    how +
                                    " since it was indexed; put it back, or run `overlord "
                                    "index` and start a new stream"};
}

Status verify_object(runtime::Storage& storage, const model::Source& source, const std::string& uri,
                     const model::Fingerprint& expected) {
  const auto now = stat_shard(storage, source, uri);
  if (!now.ok()) {
    if (now.status().code() == Code::kNotFound) return source_changed(source, uri, "vanished");
    return now.status().with_context("source " + quote(source.name));
  }
  if (now->fingerprint == expected) return {};
  return source_changed(source, uri, how_changed(expected, now->fingerprint));
}

}  // namespace

SourceIndex::SourceIndex(std::shared_ptr<const IndexFile> file, const model::Source& source)
    : file_(std::move(file)), source_(source) {
  manifest_.name = source.name;
  manifest_.digest = file_->digest();
  manifest_.rows = file_->rows();
  manifest_.shards = file_->shards();
  manifest_.blocks = file_->blocks();
  manifest_.lengths = file_->lengths();
  for (size_t i = 0; i < source.metadata_columns.size(); ++i) {
    manifest_.columns.push_back(file_->column(i));
  }
  // Lengths do not tell where a row's media stand, nor how many bytes its text has.
  const bool tells_all = !model::places_media_in_text(source) && !source.count_bytes;
  manifest_.meta_origin = tells_all && !manifest_.lengths.empty() ? model::MetaOrigin::kIndex
                                                                  : model::MetaOrigin::kDecode;
  manifest_.holder = file_;
  if (source.schema.branches > 1) show_branches();
}

void SourceIndex::show_branches() {
  branched_ = std::make_shared<const BranchedRows>(*file_, source_.schema.branches);
  manifest_.rows = file_->rows() * source_.schema.branches;
  manifest_.shards = branched_->shards;
  manifest_.blocks = branched_->blocks;
  manifest_.columns.assign(branched_->columns.begin(), branched_->columns.end());
  manifest_.holder =
      std::make_shared<std::pair<decltype(file_), decltype(branched_)>>(file_, branched_);
}

Result<std::shared_ptr<const SourceIndex>> SourceIndex::open(const std::string& path,
                                                             const model::Source& source) {
  auto file = IndexFile::map(path);
  if (!file.ok()) return file.status().with_context("source " + quote(source.name));
  return from_file(std::move(*file), source, path);
}

Result<std::shared_ptr<const SourceIndex>> SourceIndex::from_bytes(std::string bytes,
                                                                   const model::Source& source) {
  auto file = IndexFile::from_bytes(std::move(bytes), "(in memory)");
  if (!file.ok()) return file.status().with_context("source " + quote(source.name));
  return from_file(std::move(*file), source, "(in memory)");
}

Result<std::shared_ptr<const SourceIndex>> SourceIndex::from_file(
    std::shared_ptr<const IndexFile> file, const model::Source& source, const std::string& name) {
  const std::string different = difference(file->config(), source);
  if (!different.empty()) {
    return Status(Code::kStateMismatch, "source " + quote(source.name) + ": index " + quote(name) +
                                            " was made for another config: " + different +
                                            "; run `overlord index`");
  }
  if (file->rows() == 0) {
    return bad_data("source " + quote(source.name) + ": index " + quote(name) + " has no rows");
  }
  return std::shared_ptr<const SourceIndex>(new SourceIndex(std::move(file), source));
}

std::vector<std::pair<uint64_t, std::string>> SourceIndex::bad_rows() const {
  std::vector<std::pair<uint64_t, std::string>> rows;
  rows.reserve(file_->bad_count());
  const uint64_t branches = std::max(source_.schema.branches, 1u);
  for (uint64_t i = 0; i < file_->bad_count(); ++i) {
    const auto [row, reason] = file_->bad_row(i);
    for (uint64_t branch = 0; branch < branches; ++branch) {
      rows.emplace_back(row * branches + branch, std::string(reason));
    }
  }
  return rows;
}

Status SourceIndex::verify(runtime::Storage& storage) const {
  // Asked for first: what a store lists need not be asked for one by one.
  const Result<std::vector<std::string>> resolved = resolve_files(storage, source_);
  std::vector<Status> found(file_->shards().size());
  runtime::for_each_parallel(kVerifyThreads, found.size(), [&](size_t shard) {
    const model::ShardEntry& entry = file_->shards()[shard];
    found[shard] = verify_object(storage, source_, entry.uri, entry.fingerprint);
    const std::string companion = companion_uri(source_, entry.uri);
    if (companion.empty() || !found[shard].ok()) return;
    found[shard] = verify_object(storage, source_, companion,
                                 file_->place(static_cast<uint32_t>(shard)).companion);
  });
  for (const Status& status : found) OVERLORD_RETURN_IF_ERROR(status);
  // Files that came later: an index that silently leaves them out is worse than none.
  OVERLORD_TRY(const std::vector<std::string> uris, resolved);
  std::unordered_set<std::string_view> known;  // in no order: a saved dataset has its own
  for (const model::ShardEntry& entry : file_->shards()) known.insert(entry.uri);
  for (const std::string& uri : uris) {
    if (!known.contains(uri)) {
      return source_changed(source_, uri, "is listed by the source but was not there");
    }
  }
  if (uris.size() != file_->shards().size()) {
    return {Code::kSourceChanged, "source " + quote(source_.name) + " lists " +
                                      std::to_string(uris.size()) + " shards, its index has " +
                                      std::to_string(file_->shards().size()) +
                                      "; run `overlord index`"};
  }
  return {};
}

Result<std::unique_ptr<BlockReader>> SourceIndex::reader() const {
  // What they hold is in the index; a reader that does not look for it has less to do.
  model::Source source = source_;
  source.metadata_columns.clear();
  OVERLORD_TRY(std::unique_ptr<BlockReader> reader, make_reader(file_, source));
  if (branched_ != nullptr) return make_branch_reader(std::move(reader), source);
  return reader;
}

std::span<const uint32_t> SourceIndex::media_values(size_t field, size_t which) const {
  return branched_ == nullptr ? file_->media(field, which) : branched_->media[field][which];
}

std::span<const uint64_t> SourceIndex::media_ends(size_t field) const {
  return branched_ == nullptr ? file_->media_ends(field) : branched_->media_ends[field];
}

uint32_t SourceIndex::media_values_per_blob() const { return file_->config().probe_values; }

uint64_t SourceIndex::mapped_bytes() const { return file_->mapped_bytes(); }

}  // namespace overlord::columnar
