// Frames of a journal: [u32 length][u32 magic and version][u32 crc][body], little-endian, crc32c
// over length, magic and body. Body: u8 kind, then records, each a varint of its length and its
// bytes. A segment is a base (all that was told before) and then frames of the records that came
// after it. What is synced together is one frame: after a power failure blocks of one sync may be
// there in any order, so of several frames a later one could be whole and an earlier one not, which
// would look like damage of something durable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"

namespace overlord::storage {

inline constexpr uint32_t kJournalVersion = 2;
inline constexpr size_t kFrameHeaderBytes = 12;
inline constexpr size_t kMaxFrameBytes = size_t{1} << 30;

enum class FrameKind : uint8_t { kBase = 1, kRecords = 2 };

class FrameWriter {
 public:
  explicit FrameWriter(FrameKind kind);
  void add(std::string_view record);
  size_t body_bytes() const { return bytes_.size() - kFrameHeaderBytes; }
  std::string take();

 private:
  std::string bytes_;
};

struct SegmentContents {
  bool has_base = false;  // false: the rest means nothing, all bytes are cut
  std::vector<std::string> records;
  uint64_t valid_bytes = 0;  // the frames end here
  uint64_t cut_bytes = 0;    // torn tail after them: a write that was never called durable
};

// A torn tail is left out and counted, be it the base itself. A damaged frame with a good one
// behind it is no tail: kBadData with the offset in `path`. Another format is kVersionMismatch.
Result<SegmentContents> parse_segment(std::string_view bytes, const std::string& path);

}  // namespace overlord::storage
