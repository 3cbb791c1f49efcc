// Constants and small codecs of the index file, shared by its writer and its reader.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/base/hash.h"
#include "overlord/columnar/index/index_file.h"

namespace overlord::columnar::layout {

// Arrays are mapped as they lie in the file.
static_assert(std::endian::native == std::endian::little, "index files are little-endian");

inline constexpr std::string_view kMagic{"OVLINDEX", 8};
inline constexpr size_t kAlignment = 64;

enum Section : uint32_t {
  kConfig = 1,
  kShards = 2,
  kBlocks = 3,
  kLengths = 4,
  kBlockExtras = 5,
  kBlobs = 6,
  kBadRows = 7,
  kColumns = 8,     // from version 2 on
  kMedia = 9,       // from version 3 on
  kMediaEnds = 10,  // from version 4 on
};
inline constexpr uint32_t kMostSections = 10;

inline constexpr uint32_t section_count(uint32_t version) {
  return kBadRows + version - kPlainIndexVersion;
}

// magic, version, header bytes, file bytes, source digest, section count, sections, header hash
inline constexpr size_t header_bytes(uint32_t version) {
  return 8 + 4 + 4 + 8 + 16 + 4 + section_count(version) * (4 + 3 * 8) + 8;
}

inline constexpr size_t kBadRowBytes = 16;  // u64 row, u64 end of its reason

inline size_t aligned(size_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

void write_config(const IndexConfig& config, ByteWriter* out);
IndexConfig read_config(uint32_t version, ByteReader* in);
void write_fingerprint(const model::Fingerprint& fingerprint, ByteWriter* out);
model::Fingerprint read_fingerprint(ByteReader* in);

// What the digest of a source stands for. kFiles: decoding a row finds all that the length pass
// finds and nothing else, so that lengths, and who counted them, change nothing. kLengths: not so;
// the tokenizer and the lengths are named with the files. docs/decisions/0045-indexes-by-content.md
enum class DigestCovers : uint8_t { kFiles, kLengths };

// What tells one shard from another, wherever it lies.
struct ShardIdentity {
  std::string_view uri;
  uint64_t rows = 0;
  model::Fingerprint own;
  model::Fingerprint companion;
  uint64_t scanned = 0;
};

struct DigestedArrays {
  std::span<const model::BlockEntry> blocks;
  std::span<const uint32_t> lengths;
  std::string_view columns;
  std::string_view media;
  std::string_view media_ends;
};

// Digest of everything that orders the source. URIs enter relative to the directory they share, so
// a corpus that was moved keeps its digest; modification times stay out for the same reason.
Digest source_digest(const IndexConfig& config, std::span<const ShardIdentity> shards,
                     const DigestedArrays& arrays, DigestCovers covers);

// What builds before digests left lengths out called the data of an index. Reads all of it.
Digest older_digest(const IndexFile& file);

// columnar::encode_index() for an index that is kept.
Result<std::string> encode_index(const IndexConfig& config, std::vector<ShardPart> parts,
                                 bool keep_lengths, DigestCovers covers);

// Held while somebody looks at an index file and then replaces it: of two who do, one waits for
// the other, where the file system can tell. Of the folder, so that no file is left.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path);  // of the index file
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace overlord::columnar::layout
