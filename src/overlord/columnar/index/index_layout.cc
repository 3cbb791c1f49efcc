#include "overlord/columnar/index/index_layout.h"

#include <algorithm>

namespace overlord::columnar::layout {
namespace {

// Length of the directory part that all URIs share, with its slash.
size_t common_directory(std::span<const ShardIdentity> shards) {
  if (shards.empty()) return 0;
  const std::string_view first = shards.front().uri;
  size_t common = first.size();
  for (const ShardIdentity& shard : shards) {
    const std::string_view uri = shard.uri;
    const size_t most = std::min(common, uri.size());
    common = static_cast<size_t>(
        std::mismatch(first.begin(), first.begin() + static_cast<ptrdiff_t>(most), uri.begin())
            .first -
        first.begin());
  }
  const size_t slash = first.substr(0, common).find_last_of('/');
  return slash == std::string_view::npos ? 0 : slash + 1;
}

}  // namespace

}  // namespace overlord::columnar::layout

namespace overlord::columnar {

uint32_t IndexConfig::version() const {
  if (!media.empty()) return kMediaIndexVersion;
  if (format > model::Format::kMegatron) return kFormatIndexVersion;
  return metadata_columns.empty() ? kPlainIndexVersion : kIndexVersion;
}

}  // namespace overlord::columnar

namespace overlord::columnar::layout {
namespace {

enum : uint8_t { kMany = 1, kHasRoot = 2, kHasPart = 4 };  // of a media field

uint8_t flags_of(const model::MediaField& field) {
  return static_cast<uint8_t>((field.many ? kMany : 0) | (field.root.empty() ? 0 : kHasRoot) |
                              (field.has_part() ? kHasPart : 0));
}

}  // namespace

void write_config(const IndexConfig& config, ByteWriter* out) {
  out->u8(static_cast<uint8_t>(config.format));
  out->text(config.text_column);
  out->text(config.token_column);
  out->text(config.mask_column);
  out->u64(config.max_document_bytes);
  out->u64(config.max_block_bytes);
  out->u32(config.max_expansion);
  out->u32(config.block_rows);
  out->u64(config.block_bytes);
  out->u8(config.counted ? 1 : 0);
  out->text(config.tokenizer_digest);
  out->u32(config.vocabulary);
  const uint32_t version = config.version();
  if (version < kIndexVersion) return;
  out->varint(config.metadata_columns.size());
  for (const std::string& column : config.metadata_columns) out->text(column);
  if (version < kFormatIndexVersion) return;
  out->varint(config.media.size());
  for (const model::MediaField& field : config.media) {
    out->text(field.name);
    out->varint(field.from.size());
    for (const std::string& name : field.from) out->text(name);
    out->u8(flags_of(field));
    if (!field.root.empty()) out->text(field.root);
    if (!field.has_part()) continue;
    out->text(field.start);
    out->text(field.end);
  }
  out->u64(config.max_media_bytes);
  out->text(config.probe_version);
  out->u32(config.probe_values);
}

IndexConfig read_config(uint32_t version, ByteReader* in) {
  IndexConfig config;
  config.format = static_cast<model::Format>(in->u8());
  config.text_column = in->text();
  config.token_column = in->text();
  config.mask_column = in->text();
  config.max_document_bytes = in->u64();
  config.max_block_bytes = in->u64();
  config.max_expansion = in->u32();
  config.block_rows = in->u32();
  config.block_bytes = in->u64();
  config.counted = in->u8() != 0;
  config.tokenizer_digest = in->text();
  config.vocabulary = in->u32();
  if (version == kPlainIndexVersion) return config;
  config.metadata_columns.resize(in->count(1));
  for (std::string& column : config.metadata_columns) column = in->text();
  if (version < kFormatIndexVersion) return config;
  config.media.resize(in->count(2));
  for (model::MediaField& field : config.media) {
    field.name = in->text();
    field.from.resize(in->count(1));
    for (std::string& name : field.from) name = in->text();
    // An older index is refused once its version has been looked at.
    if (version < kMediaIndexVersion) continue;
    const uint8_t flags = in->u8();
    field.many = (flags & kMany) != 0;
    if ((flags & kHasRoot) != 0) field.root = in->text();
    if ((flags & kHasPart) == 0) continue;
    field.start = in->text();
    field.end = in->text();
  }
  config.max_media_bytes = in->u64();
  config.probe_version = in->text();
  config.probe_values = in->u32();
  return config;
}

namespace {

// In the place of a modification time, with a length added: an ETag of that length follows. No file
// was written in the year that this would be, 1677.
constexpr uint64_t kEtagMark = uint64_t{1} << 63;

}  // namespace

void write_fingerprint(const model::Fingerprint& fingerprint, ByteWriter* out) {
  const std::string_view etag = fingerprint.etag_text();
  out->u64(fingerprint.size_bytes);
  out->u64(etag.empty() ? static_cast<uint64_t>(fingerprint.modified_ns) : kEtagMark + etag.size());
  out->u64(fingerprint.content);
  out->raw(etag.data(), etag.size());
}

model::Fingerprint read_fingerprint(ByteReader* in) {
  model::Fingerprint fingerprint;
  fingerprint.size_bytes = in->u64();
  const uint64_t modified = in->u64();
  fingerprint.content = in->u64();
  if (modified > kEtagMark && modified - kEtagMark < fingerprint.etag.size()) {
    fingerprint.set_etag(in->raw(modified - kEtagMark));
  } else {
    fingerprint.modified_ns = static_cast<int64_t>(modified);
  }
  return fingerprint;
}

Digest source_digest(const IndexConfig& config, std::span<const ShardIdentity> shards,
                     const DigestedArrays& arrays, DigestCovers covers) {
  const std::span<const uint32_t> lengths =
      covers == DigestCovers::kLengths ? arrays.lengths : std::span<const uint32_t>();
  ByteWriter out;
  out.u32(kPlainIndexVersion);
  out.u8(static_cast<uint8_t>(config.format));
  out.text(config.text_column);
  out.text(config.token_column);
  out.text(config.mask_column);
  out.u8(lengths.empty() ? 0 : 1);
  out.text(covers == DigestCovers::kLengths ? config.tokenizer_digest : std::string());
  const size_t common = common_directory(shards);
  for (const ShardIdentity& shard : shards) {
    out.text(shard.uri.substr(common));
    out.u64(shard.rows);
    for (const model::Fingerprint& fingerprint : {shard.own, shard.companion}) {
      out.u64(fingerprint.size_bytes);
      out.u64(fingerprint.content);
    }
    out.u64(shard.scanned);
  }
  out.digest(digest_of(arrays.blocks.data(), arrays.blocks.size_bytes()));
  out.digest(digest_of(lengths.data(), lengths.size_bytes()));
  for (const std::string& column : config.metadata_columns) out.text(column);
  if (!config.metadata_columns.empty()) out.digest(digest_of(arrays.columns));
  for (const model::MediaField& field : config.media) {
    out.text(field.name);
    for (const std::string& name : field.from) out.text(name);
    out.u8(field.many ? 1 : 0);
    if (!field.has_part()) continue;
    out.text(field.start);
    out.text(field.end);
  }
  if (!config.media.empty()) {
    out.digest(digest_of(arrays.media));
    out.digest(digest_of(arrays.media_ends));
  }
  return digest_of(out.bytes());
}

Digest older_digest(const IndexFile& file) {
  std::vector<ShardIdentity> shards;
  for (uint32_t i = 0; i < file.shards().size(); ++i) {
    const model::ShardEntry& entry = file.shards()[i];
    const ShardPlace& place = file.place(i);
    shards.push_back({entry.uri, entry.rows, entry.fingerprint, place.companion, place.scanned});
  }
  // Arrays of one kind lie one after another.
  const auto bytes = [](const auto* first, uint64_t count) {
    return std::string_view(reinterpret_cast<const char*>(first), count * sizeof *first);
  };
  const IndexConfig& config = file.config();
  DigestedArrays arrays{file.blocks(), file.lengths(), {}, {}, {}};
  if (!config.metadata_columns.empty()) {
    arrays.columns = bytes(file.column(0).data(), config.metadata_columns.size() * file.rows());
  }
  if (!config.media.empty()) {
    uint64_t values = 0;
    for (size_t field = 0; field < config.media.size(); ++field) {
      values += file.media(field, 0).size() * (1 + uint64_t{config.probe_values});
    }
    arrays.media = bytes(file.media(0, 0).data(), values);
    arrays.media_ends = bytes(file.media_ends(0).data(), config.media.size() * file.rows());
  }
  return source_digest(config, shards, arrays, DigestCovers::kLengths);
}

}  // namespace overlord::columnar::layout
