#include "overlord/columnar/index/index_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "overlord/base/enum_names.h"
#include "overlord/columnar/index/index_layout.h"
#include "overlord/columnar/media.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;

constexpr size_t kLargestSmallSection = 1 << 20;

Status damaged(const std::string& what) { return bad_data("damaged: " + what); }

Status advise(const Status& status, const std::string& name) {
  const bool starved = status.code() == Code::kResource;  // nothing is wrong with the file
  return {status.code(), "index " + quote(name) + ": " + status.message() +
                             (starved ? "; raise `ulimit -n`, or `ulimit -v` where that is set"
                                      : "; run `overlord index` to rebuild it")};
}

template <typename T>
Result<std::span<const T>> array_of(std::string_view bytes, const char* what) {
  if (bytes.size() % sizeof(T) != 0) return damaged(std::string(what) + " has a broken size");
  return std::span<const T>(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
}

// After a section was hashed, its pages need not count as ours: they stay in the page cache.
void forget_pages(std::string_view section) {
  const long page = ::sysconf(_SC_PAGESIZE);
  const auto begin = (reinterpret_cast<uintptr_t>(section.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(section.data()) + section.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

uint64_t u64_at(std::string_view bytes, size_t offset) {
  uint64_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

IndexFile::~IndexFile() {
  if (mapping_ != nullptr) ::munmap(mapping_, bytes_.size());
}

Result<std::shared_ptr<const IndexFile>> IndexFile::map(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const Status status =
        errno == ENOENT ? not_found("no such file") : Status(Code::kResource, std::strerror(errno));
    return advise(status, path);
  }
  struct stat info;
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const size_t size = regular ? static_cast<size_t>(info.st_size) : 0;
  void* mapping = size == 0 ? MAP_FAILED : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (mapping == MAP_FAILED) {
    return advise(
        regular && size == 0 ? damaged("file is empty") : Status(Code::kResource, "cannot map it"),
        path);
  }
  std::shared_ptr<IndexFile> file(new IndexFile());
  file->mapping_ = mapping;
  file->bytes_ = std::string_view(static_cast<const char*>(mapping), size);
  if (const Status status = file->parse(); !status.ok()) return advise(status, path);
  return std::shared_ptr<const IndexFile>(std::move(file));
}

Result<std::shared_ptr<const IndexFile>> IndexFile::from_bytes(std::string bytes,
                                                               const std::string& name) {
  std::shared_ptr<IndexFile> file(new IndexFile());
  file->owned_ = std::move(bytes);
  file->bytes_ = file->owned_;
  if (reinterpret_cast<uintptr_t>(file->bytes_.data()) % alignof(model::BlockEntry) != 0) {
    return internal_error("index bytes are not aligned");
  }
  if (const Status status = file->parse(); !status.ok()) return advise(status, name);
  return std::shared_ptr<const IndexFile>(std::move(file));
}

Status IndexFile::parse() {
  if (bytes_.size() < layout::kMagic.size() + 8 || !bytes_.starts_with(layout::kMagic)) {
    return bad_data("not an Overlord index (other magic)");
  }
  ByteReader reader(bytes_.substr(layout::kMagic.size()));
  version_ = reader.u32();
  if (version_ < kPlainIndexVersion || version_ > kMediaIndexVersion) {
    return {Code::kVersionMismatch,
            "of version " + std::to_string(version_) + ", this build reads versions " +
                std::to_string(kPlainIndexVersion) + " to " + std::to_string(kMediaIndexVersion)};
  }
  const size_t header_bytes = layout::header_bytes(version_);
  if (reader.u32() != header_bytes || bytes_.size() < header_bytes) {
    return damaged("header is cut or of another size");
  }
  const std::string_view header = bytes_.substr(0, header_bytes);
  if (hash64(header.data(), header.size() - 8) != u64_at(header, header.size() - 8)) {
    return damaged("header hash does not fit");
  }
  if (reader.u64() != bytes_.size()) return damaged("file is cut or has bytes left over");
  digest_ = reader.digest();
  return parse_sections(header.substr(layout::kMagic.size() + 32));
}

Status IndexFile::parse_sections(std::string_view table) {
  ByteReader reader(table);
  const uint32_t count = layout::section_count(version_);
  if (reader.u32() != count) return damaged("other number of sections");
  std::string_view sections[layout::kMostSections + 1];
  size_t expected = layout::aligned(layout::header_bytes(version_));
  for (uint32_t kind = 1; kind <= count; ++kind) {
    const uint32_t stored = reader.u32();
    const uint64_t offset = reader.u64();
    const uint64_t size = reader.u64();
    const uint64_t hash = reader.u64();
    const std::string what = "section " + std::to_string(kind);
    if (stored != kind || offset != expected || offset > bytes_.size() ||
        size > bytes_.size() - offset) {
      return damaged(what + " lies outside of the file");
    }
    sections[kind] = bytes_.substr(offset, size);
    if (hash64(sections[kind].data(), size) != hash) return damaged(what + " hash does not fit");
    if (mapping_ != nullptr && size > kLargestSmallSection) forget_pages(sections[kind]);
    expected = layout::aligned(offset + size);
  }
  blobs_ = sections[layout::kBlobs];
  OVERLORD_RETURN_IF_ERROR(parse_config(sections[layout::kConfig]));
  OVERLORD_TRY(blocks_, array_of<model::BlockEntry>(sections[layout::kBlocks], "block table"));
  OVERLORD_TRY(lengths_, array_of<uint32_t>(sections[layout::kLengths], "lengths"));
  OVERLORD_TRY(extra_ends_, array_of<uint64_t>(sections[layout::kBlockExtras], "block extras"));
  OVERLORD_TRY(columns_, array_of<uint32_t>(sections[layout::kColumns], "columns"));
  OVERLORD_TRY(media_, array_of<uint32_t>(sections[layout::kMedia], "media"));
  OVERLORD_TRY(media_ends_, array_of<uint64_t>(sections[layout::kMediaEnds], "media ends"));
  OVERLORD_RETURN_IF_ERROR(parse_shards(sections[layout::kShards]));
  OVERLORD_RETURN_IF_ERROR(check_blocks());
  OVERLORD_RETURN_IF_ERROR(check_media());
  OVERLORD_RETURN_IF_ERROR(check_extras());
  return parse_bad_rows(sections[layout::kBadRows]);
}

Status IndexFile::parse_config(std::string_view bytes) {
  ByteReader reader(bytes);
  config_ = layout::read_config(version_, &reader);
  OVERLORD_RETURN_IF_ERROR(reader.status("config"));
  if (!is_known(config_.format)) return damaged("unknown format");
  if (version_ < kMediaIndexVersion && !config_.media.empty()) {
    return {Code::kVersionMismatch, "its media are of version " + std::to_string(version_) +
                                        ", this build reads version " +
                                        std::to_string(kMediaIndexVersion)};
  }
  if (config_.version() != version_ ||
      config_.metadata_columns.size() > model::kMaxMetadataColumns ||
      config_.media.size() > model::kMaxMediaFields || config_.probe_values > kMaxProbeValues) {
    return damaged("other number of columns than its version has");
  }
  return {};
}

Status IndexFile::parse_shards(std::string_view bytes) {
  ByteReader reader(bytes);
  const size_t count = reader.count(8 * 8);
  if (count > 0xffffffffull) return damaged("too many shards");
  shards_.reserve(count);
  places_.reserve(count);
  uint64_t block = 0;
  for (size_t i = 0; i < count; ++i) {
    model::ShardEntry entry;
    ShardPlace place;
    entry.uri = reader.text();
    entry.fingerprint = layout::read_fingerprint(&reader);
    place.companion = layout::read_fingerprint(&reader);
    place.scanned = reader.u64();
    entry.first_row = rows_;
    entry.rows = reader.varint();
    const uint64_t blocks = reader.varint();
    place.extra_offset = reader.u64();
    place.extra_bytes = reader.u64();
    if (has_columns()) place.columns_seen = reader.u64();
    if (reader.failed()) break;
    if (blocks > blocks_.size() - block || entry.rows > (uint64_t{1} << 62) - rows_) {
      return damaged("shard table and block table do not fit");
    }
    if (place.extra_offset > blobs_.size() ||
        place.extra_bytes > blobs_.size() - place.extra_offset) {
      return damaged("extra of a shard lies outside of the file");
    }
    place.first_block = static_cast<uint32_t>(block);
    place.blocks = static_cast<uint32_t>(blocks);
    block += blocks;
    rows_ += entry.rows;
    shards_.push_back(std::move(entry));
    places_.push_back(place);
  }
  OVERLORD_RETURN_IF_ERROR(reader.status("shard table"));
  if (block != blocks_.size()) return damaged("shard table and block table do not fit");
  return {};
}

Status IndexFile::check_blocks() const {
  uint64_t row = 0;
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    if (row != shards_[shard].first_row) return damaged("blocks do not cover their shard");
    for (uint32_t i = 0; i < places_[shard].blocks; ++i) {
      const model::BlockEntry& block = blocks_[places_[shard].first_block + i];
      if (block.shard != shard || block.rows == 0 || block.first_row != row ||
          block.offset > (uint64_t{1} << 62) || block.size_bytes > (uint64_t{1} << 62)) {
        return damaged("block " + std::to_string(places_[shard].first_block + i) +
                       " makes no sense");
      }
      row += block.rows;
    }
  }
  if (row != rows_) return damaged("blocks do not cover all rows");
  if (!lengths_.empty() && lengths_.size() != rows_) return damaged("lengths are not one per row");
  const size_t columns = config_.metadata_columns.size();
  if (columns > 0 && (columns_.size() % columns != 0 || columns_.size() / columns != rows_)) {
    return damaged("columns are not one value per row");
  }
  return {};
}

// After this the blobs of a row lie in the arrays of its field, and are not more than it may have.
Status IndexFile::check_media() {
  const size_t fields = config_.media.size();
  const size_t per_field = 1 + size_t{config_.probe_values};
  if (media_ends_.size() % std::max<size_t>(fields, 1) != 0 ||
      media_ends_.size() / std::max<size_t>(fields, 1) != (fields > 0 ? rows_ : 0)) {
    return damaged("media are not one list per row");
  }
  uint64_t values = 0;
  for (size_t field = 0; field < fields; ++field) {
    const uint64_t most = config_.media[field].many ? model::kMaxRowBlobs : 1;
    uint64_t begin = 0;
    for (const uint64_t end : media_ends(field)) {
      if (end < begin || end - begin > most) return damaged("media ends make no sense");
      begin = end;
    }
    media_begins_.push_back(values);
    if (begin > (media_.size() - values) / per_field) return damaged("media are cut");
    values += begin * per_field;
  }
  if (values != media_.size()) return damaged("media are not one value per blob");
  return {};
}

Status IndexFile::check_extras() const {
  if (extra_ends_.empty()) return {};
  if (extra_ends_.size() != blocks_.size()) return damaged("block extras are not one per block");
  // The extras of a shard's blocks end where the shard's own extra begins.
  uint64_t begin = 0;
  for (const ShardPlace& place : places_) {
    for (uint32_t i = 0; i < place.blocks; ++i) {
      const uint64_t end = extra_ends_[place.first_block + i];
      if (end < begin || end > place.extra_offset) return damaged("block extras overlap");
      begin = end;
    }
    begin = place.extra_offset + place.extra_bytes;
  }
  return {};
}

Status IndexFile::parse_bad_rows(std::string_view bytes) {
  if (bytes.size() < 8) return damaged("bad rows are cut");
  bad_count_ = u64_at(bytes, 0);
  bad_rows_ = bytes.substr(8);
  if (bad_count_ > bad_rows_.size() / layout::kBadRowBytes) return damaged("bad rows are cut");
  const uint64_t text_bytes = bad_rows_.size() - bad_count_ * layout::kBadRowBytes;
  uint64_t previous_end = 0;
  for (uint64_t i = 0; i < bad_count_; ++i) {
    const uint64_t row = u64_at(bad_rows_, i * layout::kBadRowBytes);
    const uint64_t end = u64_at(bad_rows_, i * layout::kBadRowBytes + 8);
    const bool ascends = i == 0 || row > u64_at(bad_rows_, (i - 1) * layout::kBadRowBytes);
    if (row >= rows_ || !ascends || end < previous_end || end > text_bytes) {
      return damaged("bad row record " + std::to_string(i) + " makes no sense");
    }
    previous_end = end;
  }
  return {};
}

std::span<const uint32_t> IndexFile::media(size_t field, size_t which) const {
  const uint64_t blobs = rows_ == 0 ? 0 : media_ends(field).back();
  return media_.subspan(media_begins_[field] + which * blobs, blobs);
}

std::string_view IndexFile::block_extra(uint32_t block) const {
  if (extra_ends_.empty()) return {};
  const ShardPlace& place = places_[blocks_[block].shard];
  uint64_t begin = 0;
  if (block > place.first_block) {
    begin = extra_ends_[block - 1];
  } else {
    // First of its shard: behind the extra of the last shard that has blocks or an extra of its
    // own.
    const uint32_t shard = blocks_[block].shard;
    if (shard > 0) begin = places_[shard - 1].extra_offset + places_[shard - 1].extra_bytes;
  }
  return blobs_.substr(begin, extra_ends_[block] - begin);
}

std::string_view IndexFile::shard_extra(uint32_t shard) const {
  return blobs_.substr(places_[shard].extra_offset, places_[shard].extra_bytes);
}

std::pair<uint64_t, std::string_view> IndexFile::bad_row(uint64_t index) const {
  const std::string_view text = bad_rows_.substr(bad_count_ * layout::kBadRowBytes);
  const size_t at = index * layout::kBadRowBytes;
  const uint64_t begin = index == 0 ? 0 : u64_at(bad_rows_, at - 8);
  return {u64_at(bad_rows_, at), text.substr(begin, u64_at(bad_rows_, at + 8) - begin)};
}

uint64_t IndexFile::first_bad_at(uint64_t row) const {
  uint64_t low = 0, high = bad_count_;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (u64_at(bad_rows_, middle * layout::kBadRowBytes) < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::string_view IndexFile::bad_reason(uint64_t row) const {
  const uint64_t index = first_bad_at(row);
  if (index == bad_count_) return {};
  const auto [found, reason] = bad_row(index);
  return found == row ? reason : std::string_view();
}

ShardPart IndexFile::part(uint32_t shard) const {
  const ShardPlace& place = places_[shard];
  ShardPart part;
  part.entry = shards_[shard];
  part.companion = place.companion;
  part.scanned = place.scanned;
  part.extra = shard_extra(shard);
  for (uint32_t i = 0; i < place.blocks; ++i) {
    model::BlockEntry block = blocks_[place.first_block + i];
    block.first_row -= part.entry.first_row;
    block.shard = 0;
    part.blocks.push_back(block);
    if (extra_ends_.empty()) continue;
    part.block_extras += block_extra(place.first_block + i);
    part.block_extra_ends.push_back(part.block_extras.size());
  }
  if (!lengths_.empty()) {
    const auto mine = lengths_.subspan(part.entry.first_row, part.entry.rows);
    part.lengths.assign(mine.begin(), mine.end());
  }
  for (uint64_t i = first_bad_at(part.entry.first_row); i < bad_count_; ++i) {
    const auto [row, reason] = bad_row(i);
    if (row - part.entry.first_row >= part.entry.rows) break;
    part.bad.emplace_back(row - part.entry.first_row, std::string(reason));
  }
  for (size_t i = 0; i < config_.metadata_columns.size(); ++i) {
    const auto mine = column(i).subspan(part.entry.first_row, part.entry.rows);
    part.columns.emplace_back(mine.begin(), mine.end());
  }
  for (size_t field = 0; field < config_.media.size(); ++field) {
    const auto ends = media_ends(field);
    const uint64_t begin = part.entry.first_row == 0 ? 0 : ends[part.entry.first_row - 1];
    std::vector<uint64_t>& mine = part.media_ends.emplace_back();
    for (const uint64_t end : ends.subspan(part.entry.first_row, part.entry.rows)) {
      mine.push_back(end - begin);
    }
    const uint64_t blobs = mine.empty() ? 0 : mine.back();
    for (size_t i = 0; i < 1 + size_t{config_.probe_values}; ++i) {
      const auto values = media(field, i).subspan(begin, blobs);
      part.media.emplace_back(values.begin(), values.end());
    }
  }
  part.columns_seen = place.columns_seen;
  part.entry.first_row = 0;
  return part;
}

}  // namespace overlord::columnar
