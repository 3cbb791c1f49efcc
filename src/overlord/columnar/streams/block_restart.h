// How a block of a compressed shard is entered: what the index keeps of the restart point that
// lies before it, for all formats that are read through a TextStream.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "overlord/base/bytes.h"
#include "overlord/base/status.h"
#include "overlord/columnar/streams/text_stream.h"

namespace overlord::columnar {

struct BlockRestart {
  RestartPoint point;
  uint64_t skip = 0;              // bytes of text between the point and the block
  uint64_t compressed_bytes = 0;  // from point.first_byte() on, enough for the block
  uint64_t window_offset = 0;     // in the shard's extra
  uint64_t window_bytes = 0;
};

// Writes the points of a shard's blocks. Windows cost index bytes: gzip blocks that begin soon
// after a point that is kept already share it.
class RestartNotes {
 public:
  explicit RestartNotes(Coding coding) : coding_(coding) {
    windows_.u8(static_cast<uint8_t>(coding));
  }
  // A block whose text begins at `begin` and is whole once `compressed_end` bytes were read.
  void add(const std::shared_ptr<const RestartPoint>& point, uint64_t begin,
           uint64_t compressed_end, ByteWriter* block_extras);
  std::string take_shard_extra() { return windows_.take(); }

 private:
  const Coding coding_;
  ByteWriter windows_;
  std::shared_ptr<const RestartPoint> kept_;  // the last point that entered the index
  uint64_t window_offset_ = 0;
  uint64_t window_bytes_ = 0;
};

// False: these are not what add() wrote.
bool read_restart(ByteReader* block_extra, BlockRestart* out);
// Unpacks the window of a point inside a gzip member.
Status load_window(std::string_view shard_extra, BlockRestart* restart);

}  // namespace overlord::columnar
