// The writing half of index_file.h.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/index_layout.h"
#include "overlord/columnar/media.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;

template <typename T>
void append_array(const std::vector<T>& values, std::string* out) {
  out->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

struct Sections {
  std::array<std::string, layout::kMostSections + 1> bytes;  // by layout::Section
  std::vector<model::BlockEntry> blocks;
  std::vector<uint32_t> lengths;
};

void add_bad_row(uint64_t row, const std::string& reason, std::string* table, std::string* text) {
  text->append(reason);
  const uint64_t record[2] = {row, text->size()};
  table->append(reinterpret_cast<const char*>(record), sizeof record);
}

// One array after another, each over all shards.
Status gather_columns(const std::vector<ShardPart>& parts, size_t count, std::string* out) {
  for (size_t i = 0; i < count; ++i) {
    for (const ShardPart& part : parts) {
      if (part.columns.size() != count || part.columns[i].size() != part.entry.rows) {
        return internal_error("metadata columns are not one value per row");
      }
      append_array(part.columns[i], out);
    }
  }
  return {};
}

// The same of media. Ends count from the start of the shard there, and over all of them here.
Status gather_media(const std::vector<ShardPart>& parts, const IndexConfig& config, Sections* out) {
  const size_t per_field = 1 + size_t{config.probe_values};
  for (size_t field = 0; field < config.media.size(); ++field) {
    uint64_t before = 0;
    for (const ShardPart& part : parts) {
      if (part.media_ends.size() != config.media.size() ||
          part.media.size() != media_arrays(config.media.size(), config.probe_values) ||
          part.media_ends[field].size() != part.entry.rows) {
        return internal_error("media are not one list per row");
      }
      std::vector<uint64_t> ends = part.media_ends[field];
      const uint64_t blobs = ends.empty() ? 0 : ends.back();
      for (uint64_t& end : ends) end += before;
      append_array(ends, &out->bytes[layout::kMediaEnds]);
      before += blobs;
      for (size_t i = 0; i < per_field; ++i) {
        if (part.media[field * per_field + i].size() == blobs) continue;
        return internal_error("media are not one value per blob");
      }
    }
    for (size_t i = 0; i < per_field; ++i) {
      for (const ShardPart& part : parts) {
        append_array(part.media[field * per_field + i], &out->bytes[layout::kMedia]);
      }
    }
  }
  return {};
}

Status gather(std::vector<ShardPart>* parts, bool keep_lengths, bool with_columns, Sections* out) {
  ByteWriter shards;
  shards.varint(parts->size());
  std::string& blobs = out->bytes[layout::kBlobs];
  std::vector<uint64_t> extra_ends;
  std::string bad_table, bad_text;
  bool any_extra = false;
  uint64_t row = 0;
  for (size_t shard = 0; shard < parts->size(); ++shard) {
    ShardPart& part = (*parts)[shard];
    part.entry.first_row = row;
    shards.text(part.entry.uri);
    layout::write_fingerprint(part.entry.fingerprint, &shards);
    layout::write_fingerprint(part.companion, &shards);
    shards.u64(part.scanned);
    shards.varint(part.entry.rows);
    shards.varint(part.blocks.size());
    for (model::BlockEntry block : part.blocks) {
      block.first_row += row;
      block.shard = static_cast<uint32_t>(shard);
      out->blocks.push_back(block);
    }
    // Extras of the blocks first, then the shard's own: block ends stay ascending.
    for (size_t i = 0; i < part.blocks.size(); ++i) {
      extra_ends.push_back(blobs.size() +
                           (part.block_extra_ends.empty() ? 0 : part.block_extra_ends[i]));
    }
    any_extra |= !part.block_extra_ends.empty();
    blobs += part.block_extras;
    shards.u64(blobs.size());
    shards.u64(part.extra.size());
    if (with_columns) shards.u64(part.columns_seen);
    blobs += part.extra;
    if (keep_lengths) {
      if (part.lengths.size() != part.entry.rows)
        return internal_error("lengths are not one per row");
      out->lengths.insert(out->lengths.end(), part.lengths.begin(), part.lengths.end());
    }
    for (const auto& [bad, reason] : part.bad)
      add_bad_row(row + bad, reason, &bad_table, &bad_text);
    row += part.entry.rows;
    part.lengths = {};
    part.block_extras = {};
  }
  if (out->blocks.size() > std::numeric_limits<uint32_t>::max()) {
    return Status(Code::kResource, "source has more than 2^32 blocks; raise block_rows");
  }
  if (any_extra) append_array(extra_ends, &out->bytes[layout::kBlockExtras]);
  out->bytes[layout::kShards] = shards.take();
  append_array(out->blocks, &out->bytes[layout::kBlocks]);
  append_array(out->lengths, &out->bytes[layout::kLengths]);
  const uint64_t bad_count = bad_table.size() / layout::kBadRowBytes;
  std::string& bad = out->bytes[layout::kBadRows];
  bad.append(reinterpret_cast<const char*>(&bad_count), sizeof bad_count);
  bad += bad_table;
  bad += bad_text;
  return {};
}

class ScopedFile {
 public:
  explicit ScopedFile(std::string path) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  }
  ~ScopedFile() {
    if (fd_ >= 0) {
      ::close(fd_);
      ::unlink(path_.c_str());  // gone already when it was renamed
    }
  }
  ScopedFile(const ScopedFile&) = delete;
  ScopedFile& operator=(const ScopedFile&) = delete;
  int fd() const { return fd_; }

 private:
  std::string path_;
  int fd_ = -1;
};

Status write_error(const std::string& path, int error) {
  return {Code::kResource, "cannot write index " + quote(path) + ": " + std::strerror(error)};
}

}  // namespace

Result<std::string> encode_index(const IndexConfig& config, std::vector<ShardPart> parts,
                                 bool keep_lengths) {
  return layout::encode_index(config, std::move(parts), keep_lengths, layout::DigestCovers::kFiles);
}

Status write_index_file(const std::string& path, std::string_view bytes) {
  static std::atomic<uint64_t> counter{0};  // two threads of one process must not share a temp file
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (!parent.empty()) std::filesystem::create_directories(parent, ignored);
  const std::string temporary =
      path + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter.fetch_add(1));
  ScopedFile file(temporary);
  if (file.fd() < 0) return write_error(temporary, errno);
  while (!bytes.empty()) {
    const ssize_t put = ::write(file.fd(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return write_error(temporary, errno);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  if (::fsync(file.fd()) != 0) return write_error(temporary, errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return write_error(path, errno);
  const int directory =
      ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    ::fsync(directory);  // the rename is atomic either way; this only makes it survive sooner
    ::close(directory);
  }
  return {};
}

namespace layout {

Result<std::string> encode_index(const IndexConfig& config, std::vector<ShardPart> parts,
                                 bool keep_lengths, DigestCovers covers) {
  Sections sections;
  const size_t columns = config.metadata_columns.size();
  const uint32_t version = config.version();
  OVERLORD_RETURN_IF_ERROR(gather(&parts, keep_lengths, version >= kIndexVersion, &sections));
  OVERLORD_RETURN_IF_ERROR(gather_columns(parts, columns, &sections.bytes[kColumns]));
  OVERLORD_RETURN_IF_ERROR(gather_media(parts, config, &sections));
  ByteWriter config_bytes;
  write_config(config, &config_bytes);
  sections.bytes[kConfig] = config_bytes.take();
  std::vector<ShardIdentity> shards;
  for (const ShardPart& part : parts) {
    shards.push_back(
        {part.entry.uri, part.entry.rows, part.entry.fingerprint, part.companion, part.scanned});
  }
  const Digest digest = source_digest(config, shards,
                                      {sections.blocks, sections.lengths, sections.bytes[kColumns],
                                       sections.bytes[kMedia], sections.bytes[kMediaEnds]},
                                      covers);
  const uint32_t count = section_count(version);

  size_t offset = aligned(header_bytes(version));
  ByteWriter table;
  for (uint32_t kind = 1; kind <= count; ++kind) {
    const std::string& bytes = sections.bytes[kind];
    table.u32(kind);
    table.u64(offset);
    table.u64(bytes.size());
    table.u64(hash64(bytes.data(), bytes.size()));
    offset = aligned(offset + bytes.size());
  }
  ByteWriter header;
  header.raw(kMagic.data(), kMagic.size());
  header.u32(version);
  header.u32(static_cast<uint32_t>(header_bytes(version)));
  header.u64(offset);
  header.digest(digest);
  header.u32(count);
  header.raw(table.bytes().data(), table.size());
  header.u64(hash64(header.bytes().data(), header.size()));
  OVERLORD_CHECK(header.size() == header_bytes(version), "index header size");

  std::string file;
  file.reserve(offset);
  file = header.bytes();
  for (uint32_t kind = 1; kind <= count; ++kind) {
    file.resize(aligned(file.size()), '\0');
    file += sections.bytes[kind];
    sections.bytes[kind] = {};
  }
  file.resize(offset, '\0');
  return file;
}

FolderLock::FolderLock(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  fd_ = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace layout
}  // namespace overlord::columnar
