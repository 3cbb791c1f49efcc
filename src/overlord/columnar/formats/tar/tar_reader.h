// WebDataset: samples in a tar file, plain or compressed. A sample is a run of members with one
// key; its text is a member (`txt`) or a field of a JSON member (`json:caption`), its metadata
// columns are fields of its `json` member, its media are members. Members are read where they lie.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/columnar/streams/block_restart.h"

namespace overlord::columnar {

// Where a source's text lies: in a member, or in one field of it. Rows with a schema are the fields
// of their json member.
struct TextMember {
  std::string extension;
  std::string field;  // empty: the member is the text, or has all fields of the schema
};
TextMember text_member(const model::Source& source);

// A member of a sample as the index keeps it.
struct MemberPlace {
  bool present = false;
  uint64_t offset = 0;  // in the (uncompressed) tar
  uint64_t size_bytes = 0;
  bool packed = false;  // with gzip, by itself; text and metadata alone
};

// What the index keeps of a sample: members that nobody asks for are not in it.
struct SampleEntry {
  bool bad = false;  // its reason is in the index, and it has no members
  MemberPlace text;
  MemberPlace metadata;  // the json member; only where the source has metadata columns
  std::vector<std::vector<MemberPlace>> media;  // by field, in order
};

// The extra of one block.
struct TarBlock {
  BlockRestart restart;  // compressed shards only
  std::vector<SampleEntry> samples;
};

// Behind the restart point, if there is one. Offsets are kept relative to the block's.
void write_samples(const std::vector<SampleEntry>& samples, uint64_t base, ByteWriter* out);
// False: they are not what write_samples() wrote for a block of `rows` rows.
bool read_samples(ByteReader* in, uint64_t base, size_t rows,
                  const std::vector<model::MediaField>& media, TarBlock* out);

Result<ShardPart> index_tar_shard(const ShardJob& job);
Result<std::unique_ptr<BlockReader>> make_tar_reader(std::shared_ptr<const IndexFile> file,
                                                     const model::Source& source);

}  // namespace overlord::columnar
