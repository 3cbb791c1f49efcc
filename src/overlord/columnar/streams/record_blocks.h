// RecordBlocks: from records of a text, as somebody finds where they begin and end, to the blocks
// of a shard: runs of records that are read together, with the point at which a compressed shard is
// entered for each. A record over the limits is a bad row in a block of its own without bytes, so
// that nobody ever reads it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "overlord/base/bytes.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/columnar/streams/block_restart.h"
#include "overlord/columnar/streams/text_stream.h"

namespace overlord::columnar {

class RecordBlocks {
 public:
  // `unit`: what the format calls a record ("line"). `head`: what every block has to know of its
  // shard, kept with each of them behind the restart point; may be empty.
  RecordBlocks(const ShardJob& job, const TextStream& stream, const char* unit, ShardPart* part);

  void set_head(std::string_view head);
  void set_unit(const char* unit) { unit_ = unit; }
  // A record begins at this offset of the text, in the piece that the stream gave last.
  void begin(uint64_t offset);
  // The record in hand ends before this offset, in the piece that the stream gave last; `bytes` of
  // it are the record itself.
  void end(uint64_t offset, uint64_t bytes) { add({offset, stream_.compressed_end()}, bytes); }
  // All of the piece that the stream gave last was looked at; the text goes on behind `offset`.
  void pass(uint64_t offset) { reached_ = {offset, stream_.compressed_end()}; }
  // The record in hand ends with the text.
  void end_with_text(uint64_t bytes) { add(reached_, bytes); }
  // Gives the part its rows, blocks and extras.
  void finish();

 private:
  struct End {
    uint64_t text = 0;
    uint64_t compressed = 0;
  };

  void add(End end, uint64_t bytes);
  bool belongs_to_block(End end) const;
  void close_block();
  void push_block(const model::BlockEntry& entry);

  const ShardJob& job_;
  const TextStream& stream_;
  const char* unit_;
  ShardPart* const part_;
  const Coding coding_;
  const uint64_t max_record_bytes_;
  RestartNotes restarts_;
  ByteWriter block_extras_;
  std::string head_;  // as it is kept
  End reached_;

  uint64_t record_begin_ = 0;
  std::shared_ptr<const RestartPoint> record_restart_;

  uint32_t block_rows_ = 0;
  uint64_t block_begin_ = 0;
  uint64_t first_row_ = 0;
  End block_end_;
  std::shared_ptr<const RestartPoint> block_restart_;
};

}  // namespace overlord::columnar
