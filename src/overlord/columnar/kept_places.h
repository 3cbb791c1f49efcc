// What the index keeps of where the blobs of a row lie, for formats whose rows hold or name them:
// per row and field how many there are, then each of them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/columnar/media.h"
#include "overlord/columnar/media_files.h"
#include "overlord/model/manifest.h"
#include "overlord/model/source.h"

namespace overlord::columnar {

// Bytes of a decoded block: as they lie in the shard, or made by decoding.
void keep_in_shard(uint64_t offset, uint64_t size_bytes, ByteWriter* out);
void keep_decoded(uint64_t size_bytes, ByteWriter* out);
// What a path of a row leads to.
void keep_named(std::string_view path, const NamedFile& file, ByteWriter* out);

// Where the blobs of a block are, all rows; false: not what was written.
bool read_media_rows(ByteReader* extra, const model::ShardEntry& shard, size_t rows,
                     const std::vector<model::MediaField>& media, MediaPlaces* out);

// Of all rows' places those of the wanted rows.
MediaPlaces wanted_places(MediaPlaces all, size_t fields, const std::vector<uint32_t>& rows);

// The row is bad for its media, whatever else it has. Its metadata count as 0.
void note_bad_row(const ShardJob& job, uint64_t row, std::string_view fault, ShardPart* part);

}  // namespace overlord::columnar
