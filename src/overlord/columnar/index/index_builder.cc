// Building an index: shards in parallel, unchanged ones taken over, then the checks over all of
// them.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "overlord/base/enum_names.h"
#include "overlord/columnar/formats/arrow/arrow_batch.h"
#include "overlord/columnar/formats/megatron/sequence_media.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/index_layout.h"
#include "overlord/columnar/index/index_naming.h"
#include "overlord/columnar/index/length_pass.h"
#include "overlord/columnar/index/reader_factory.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/columnar/index/source_files.h"
#include "overlord/columnar/index/source_index.h"
#include "overlord/runtime/parallel.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;

IndexConfig config_of(const model::Source& source, const IndexOptions& options) {
  IndexConfig config;
  config.format = source.format;
  config.text_column = model::text_place(source);
  config.token_column = model::token_place(source);
  config.mask_column = source.mask_column;
  config.metadata_columns = source.metadata_columns;
  config.max_document_bytes = source.limits.max_document_bytes;
  config.max_block_bytes = source.limits.max_block_bytes;
  config.max_expansion = source.limits.max_expansion;
  config.block_rows = options.block_rows;
  config.block_bytes = options.block_bytes;
  config.counted = options.lengths;
  if (!source.media.empty()) {
    config.media = media_places_of(source);
    config.max_media_bytes = source.limits.max_media_bytes;
    if (options.probe != nullptr) {
      config.probe_version = options.probe->version();
      config.probe_values = options.probe->values_per_blob();
    }
  }
  if (options.lengths && !source.text_column.empty()) {
    config.tokenizer_digest = model::text_digest(source);
  }
  // Reading metadata parses whole lines, and finds token ids that are outside.
  if (options.lengths || !source.metadata_columns.empty()) config.vocabulary = source.vocabulary;
  return config;
}

Status check_metadata_columns(const model::Source& source, const std::string& where) {
  const std::vector<std::string>& columns = source.metadata_columns;
  if (columns.empty()) return {};
  if (model::is_bare_tokens(source.format)) {
    return invalid_argument(where + enum_name(source.format) +
                            " files have no metadata columns; write the source as Parquet "
                            "or JSONL, or remove `metadata`");
  }
  if (columns.size() > model::kMaxMetadataColumns) {
    return invalid_argument(where + std::to_string(columns.size()) + " metadata columns, at most " +
                            std::to_string(model::kMaxMetadataColumns));
  }
  if (std::adjacent_find(columns.begin(), columns.end(), std::greater_equal<>()) != columns.end()) {
    return invalid_argument(where + "metadata columns must be sorted and unique");
  }
  return {};
}

Status check_media(const model::Source& source, const IndexOptions& options,
                   const std::string& where) {
  const std::vector<model::MediaField>& media = source.media;
  if (media.empty()) return {};
  if (source.format == model::Format::kTokens || source.format == model::Format::kJsonl) {
    return invalid_argument(where + "its format has no media; write the source as webdataset, " +
                            "Parquet, Arrow or MDS, or remove `media`");
  }
  if (media.size() > model::kMaxMediaFields) {
    return invalid_argument(where + std::to_string(media.size()) + " media fields, at most " +
                            std::to_string(model::kMaxMediaFields));
  }
  const auto unsorted = [](const auto& a, const auto& b) { return a.name >= b.name; };
  if (std::adjacent_find(media.begin(), media.end(), unsorted) != media.end()) {
    return invalid_argument(where + "media fields must be sorted and unique");
  }
  for (const model::MediaField& field : media) {
    const bool members = source.format == model::Format::kWebdataset;
    if (field.from.empty() || (!members && field.from.size() != 1)) {
      return invalid_argument(where + "media " + quote(field.name) +
                              (members ? " names no member extension" : " must name one column"));
    }
    if (source.format == model::Format::kMegatron && !mode_of(field)) {
      return invalid_argument(where + "media " + quote(field.name) +
                              " must name the mode of its sequences, 1 to 127");
    }
  }
  if (options.probe != nullptr && options.probe->values_per_blob() > kMaxProbeValues) {
    return invalid_argument(where + "a media probe keeps at most " +
                            std::to_string(kMaxProbeValues) + " values of a blob");
  }
  return {};
}

Status check_arguments(const model::Source& source, const IndexOptions& options,
                       const runtime::TextEncoder* encoder) {
  const std::string where = "source " + quote(source.name) + ": ";
  const bool bare = model::is_bare_tokens(source.format);
  const int columns = (source.text_column.empty() ? 0 : 1) + (source.token_column.empty() ? 0 : 1);
  if (columns != (bare ? 0 : 1)) {
    return invalid_argument(where + (bare ? enum_name(source.format) + " files have no columns"
                                          : "set exactly one of text column and token column"));
  }
  if ((source.format == model::Format::kTokens) != (source.raw.cut != model::DocumentCut::kNone) ||
      (source.raw.cut == model::DocumentCut::kLength && source.raw.value == 0)) {
    return invalid_argument(where +
                            "files of bare tokens, and they alone, need to know what a "
                            "document in them is");
  }
  if (!source.mask_column.empty() && source.token_column.empty()) {
    return invalid_argument(where + "a mask column needs a token column");
  }
  if (source.format == model::Format::kWebdataset && source.text_column.empty()) {
    return invalid_argument(where + "webdataset has text members and no token columns");
  }
  if (source.schema.declared() && bare) {
    return invalid_argument(where + enum_name(source.format) +
                            " files have no chat and interleaved rows");
  }
  OVERLORD_RETURN_IF_ERROR(check_metadata_columns(source, where));
  OVERLORD_RETURN_IF_ERROR(check_media(source, options, where));
  if (options.block_rows == 0 || options.block_bytes == 0) {
    return invalid_argument(where + "block_rows and block_bytes must be positive");
  }
  if (options.lengths && !source.text_column.empty() && encoder == nullptr) {
    return invalid_argument(where + "lengths of text need a tokenizer");
  }
  return {};
}

// Indexes all shards of a source on a few threads.
class Builder {
 public:
  Builder(runtime::Storage& storage, runtime::TextEncoder* encoder, const model::Source& source,
          const IndexOptions& options, IndexProgress* progress, const runtime::CancelToken& cancel,
          std::shared_ptr<const IndexFile> old)
      : storage_(storage),
        encoder_(encoder),
        source_(source),
        options_(options),
        progress_(progress == nullptr ? own_progress_ : *progress),
        cancel_(cancel),
        config_(config_of(source, options)),
        old_(std::move(old)) {
    if (old_ == nullptr) return;
    for (uint32_t i = 0; i < old_->shards().size(); ++i) old_shards_[old_->shards()[i].uri] = i;
  }

  Result<std::string> run() {
    OVERLORD_TRY(uris_, resolve_files(storage_, source_));
    progress_.shards_total += uris_.size();
    parts_.resize(uris_.size());
    statuses_.resize(uris_.size());
    runtime::for_each_parallel(options_.threads, uris_.size(), [this](size_t i) { work(i); });
    // The first shard that failed, whoever found it: the same answer with any number of threads.
    for (const Status& status : statuses_) OVERLORD_RETURN_IF_ERROR(status);
    OVERLORD_RETURN_IF_ERROR(check_schemas());
    OVERLORD_RETURN_IF_ERROR(check_columns());
    OVERLORD_RETURN_IF_ERROR(check_together());
    const bool lengths = !model::carries_mask(source_) &&
                         (options_.lengths || model::is_bare_tokens(source_.format));
    std::vector<ShardPart> parts;
    for (auto& part : parts_) parts.push_back(std::move(*part));
    const auto covers = lengths_change_nothing(source_) ? layout::DigestCovers::kFiles
                                                        : layout::DigestCovers::kLengths;
    return layout::encode_index(config_, std::move(parts), lengths, covers);
  }

 private:
  void work(size_t i) {
    // Shards after a failed one cannot change the answer any more.
    if (i > first_failed_) return;
    auto part = shard(i);
    if (part.ok()) {
      progress_.rows += part->entry.rows;
      ++progress_.shards_done;
      parts_[i] = std::move(*part);
      return;
    }
    statuses_[i] = part.status();
    size_t least = first_failed_;
    while (i < least && !first_failed_.compare_exchange_weak(least, i)) {
    }
  }

  Result<ShardPart> shard(size_t i) {
    const std::string& uri = uris_[i];
    ShardJob job;
    job.storage = &storage_;
    job.source = &source_;
    job.options = &options_;
    job.progress = &progress_;
    job.cancel = &cancel_;
    job.abandoned = [this, i] { return first_failed_ < i; };
    OVERLORD_RETURN_IF_ERROR(job.check_cancelled());
    OVERLORD_TRY(job.file, stat(uri));
    const std::string companion = companion_uri(source_, uri);
    if (!companion.empty()) {
      auto found = stat(companion);
      if (!found.ok() && found.status().code() == Code::kNotFound) {
        return not_found(found.status().message() +
                         "; a .bin without an .idx is not Megatron's: for tokens and nothing else "
                         "(nanoGPT, llm.c) write `format: tokens`");
      }
      OVERLORD_TRY(job.companion, std::move(found));
    }
    const uint64_t bytes = job.file.fingerprint.size_bytes;
    progress_.bytes_total += bytes;
    if (const auto old = unchanged(job)) {
      progress_.bytes_done += bytes;
      return old_->part(*old);
    }
    OVERLORD_TRY(ShardPart part, index_shard(job));
    job.note_scanned(bytes - std::min(bytes, job.scanned_bytes));
    part.columns.resize(config_.metadata_columns.size());
    part.media.resize(media_arrays(config_.media.size(), config_.probe_values));
    part.media_ends.resize(config_.media.size());
    const bool has_schema =
        source_.format != model::Format::kJsonl && source_.format != model::Format::kWebdataset;
    const bool parse_columns = !part.columns.empty() && !has_schema && !options_.lengths;
    if (options_.lengths || parse_columns) {
      uint64_t decoded = 0;
      for (const model::BlockEntry& block : part.blocks) decoded += block.size_bytes;
      progress_.bytes_total += decoded;
      OVERLORD_RETURN_IF_ERROR(options_.lengths ? count_tokens(job, encoder_, config_, &part)
                                                : read_columns(job, config_, &part));
    }
    return part;
  }

  Result<runtime::FileInfo> stat(const std::string& uri) {
    auto info = storage_.stat(uri);
    if (info.ok()) return info;
    return info.status().with_context("source " + quote(source_.name));
  }

  std::optional<uint32_t> unchanged(const ShardJob& job) const {
    const auto found = old_shards_.find(job.file.uri);
    if (found == old_shards_.end()) return std::nullopt;
    const bool same = old_->shards()[found->second].fingerprint == job.file.fingerprint &&
                      old_->place(found->second).companion == job.companion.fingerprint;
    return same ? std::optional<uint32_t>(found->second) : std::nullopt;
  }

  // Formats with columns keep those of a shard in its extra: all shards must agree.
  Status check_schemas() const {
    const bool described =
        source_.format == model::Format::kArrow || source_.format == model::Format::kMds;
    if (!described && source_.format != model::Format::kParquet) return {};
    const auto columns = [&](const ShardPart& part) {
      return std::string(described ? kept_description(part.extra) : std::string_view(part.extra));
    };
    const ShardPart& first = *parts_.front();
    for (const auto& part : parts_) {
      if (columns(*part) == columns(first)) continue;
      return invalid_argument("source " + quote(source_.name) +
                              ": shards differ in schema: " + quote(first.entry.uri) + " has (" +
                              columns(first) + "), " + quote(part->entry.uri) + " has (" +
                              columns(*part) + "); rewrite one, or make them two sources");
    }
    return {};
  }

  // Lines of JSON have no schema: a column is known when some row of the source has it.
  Status check_columns() const {
    uint64_t seen = 0;
    std::string fields;
    for (const auto& part : parts_) {
      seen |= part->columns_seen;
      if (fields.empty()) fields = part->fields;
    }
    for (size_t i = 0; i < config_.metadata_columns.size(); ++i) {
      if ((seen >> i & 1) != 0) continue;
      return not_found("source " + quote(source_.name) + ": no row has the metadata field " +
                       quote(config_.metadata_columns[i]) +
                       (fields.empty() ? "" : "; the first row has " + fields));
    }
    return {};
  }

  Status check_together() const {
    using Content = std::tuple<uint64_t, uint64_t, uint64_t>;
    std::map<Content, const ShardPart*> seen;
    uint64_t rows = 0;
    for (const auto& part : parts_) {
      rows += part->entry.rows;
      if (part->entry.rows == 0) continue;
      const model::Fingerprint& print = part->entry.fingerprint;
      const auto [found, first] =
          seen.emplace(Content{print.size_bytes, print.content, part->scanned}, &*part);
      if (first || source_.allow_duplicates) continue;
      return invalid_argument(
          "source " + quote(source_.name) + ": shards " + quote(found->second->entry.uri) +
          " and " + quote(part->entry.uri) +
          " have the same content; leave one out, or set allow_duplicates: true");
    }
    if (rows > 0) return {};
    return invalid_argument("source " + quote(source_.name) + " has no rows in its " +
                            std::to_string(parts_.size()) +
                            " shards; remove it, or check its files");
  }

  runtime::Storage& storage_;
  runtime::TextEncoder* const encoder_;
  const model::Source& source_;
  const IndexOptions& options_;
  IndexProgress own_progress_;
  IndexProgress& progress_;
  const runtime::CancelToken& cancel_;
  const IndexConfig config_;
  std::shared_ptr<const IndexFile> old_;
  std::unordered_map<std::string, uint32_t> old_shards_;

  std::vector<std::string> uris_;
  std::vector<std::optional<ShardPart>> parts_;
  std::vector<Status> statuses_;
  std::atomic<size_t> first_failed_{~size_t{0}};
};

// The first of the files that was made with this config. One that cannot be read is passed over:
// its index is simply built anew, as the reader advises.
std::shared_ptr<const IndexFile> made_with(const IndexConfig& config,
                                           const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    auto opened = IndexFile::map(path);
    if (opened.ok() && (*opened)->config() == config) return std::move(*opened);
  }
  return nullptr;
}

bool same_shards(const IndexFile& a, const IndexFile& b) {
  if (a.shards().size() != b.shards().size()) return false;
  for (uint32_t i = 0; i < a.shards().size(); ++i) {
    if (a.shards()[i].uri != b.shards()[i].uri ||
        !(a.shards()[i].fingerprint == b.shards()[i].fingerprint) ||
        !(a.place(i).companion == b.place(i).companion)) {
      return false;
    }
  }
  return true;
}

// Puts a new index in its place, unless what lies there has lengths that this one lacks.
Status publish(const model::Source& source, const std::string& path, std::string bytes,
               IndexOptions options) {
  const layout::FolderLock lock(path);
  if (!options.lengths) {
    options.lengths = true;
    if (const auto counted = made_with(config_of(source, options), {path})) {
      OVERLORD_TRY(const auto made, IndexFile::from_bytes(bytes, path));
      if (same_shards(*made, *counted)) return {};
    }
  }
  return write_index_file(path, bytes);
}

}  // namespace

std::string index_key(const model::Source& source, const IndexOptions& options,
                      const std::vector<std::string>& patterns) {
  IndexOptions counted = options;
  counted.lengths = true;
  ByteWriter writer;
  layout::write_config(config_of(source, counted), &writer);
  for (const std::string& pattern : patterns) writer.text(pattern);
  return digest_of(writer.bytes()).hex().substr(0, 16);
}

bool lengths_change_nothing(const model::Source& source) {
  return !model::is_bare_tokens(source.format) && !source.transform.declared();
}

Result<std::string> build_index_bytes(runtime::Storage& storage, runtime::TextEncoder* encoder,
                                      const model::Source& source, const IndexOptions& options,
                                      IndexProgress* progress, const runtime::CancelToken& cancel) {
  OVERLORD_RETURN_IF_ERROR(check_arguments(source, options, encoder));
  return Builder(storage, encoder, source, options, progress, cancel, nullptr).run();
}

Status build_index(runtime::Storage& storage, runtime::TextEncoder* encoder,
                   const model::Source& source, const std::string& path,
                   const std::vector<std::string>& others, const IndexOptions& options,
                   IndexProgress* progress, const runtime::CancelToken& cancel) {
  OVERLORD_RETURN_IF_ERROR(check_arguments(source, options, encoder));
  std::vector<std::string> paths = {path};
  paths.insert(paths.end(), others.begin(), others.end());
  std::shared_ptr<const IndexFile> old = made_with(config_of(source, options), paths);
  OVERLORD_TRY(std::string bytes,
               Builder(storage, encoder, source, options, progress, cancel, std::move(old)).run());
  return publish(source, path, std::move(bytes), options);
}

}  // namespace overlord::columnar
