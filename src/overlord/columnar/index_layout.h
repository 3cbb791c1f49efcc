// Constants and small codecs of the index file, shared by its writer and its reader.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/base/hash.h"
#include "overlord/columnar/index_file.h"

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

// Digest of everything that orders the source. URIs enter relative to the directory they share, so
// a corpus that was moved keeps its digest; modification times stay out for the same reason.
Digest source_digest(const IndexConfig& config, const std::vector<ShardPart>& parts,
                     std::span<const model::BlockEntry> blocks, std::span<const uint32_t> lengths,
                     bool from_index, std::string_view columns, std::string_view media,
                     std::string_view media_ends);

}  // namespace overlord::columnar::layout
