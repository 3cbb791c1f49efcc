// The frames of a link between two processes: 'OVLF', u32 descriptors, u64 bytes (little endian),
// then the bytes; the descriptors travel with a frame's first byte. FrameReader cuts what arrives
// into frames and believes nothing: sizes are checked before anything is allocated, and a
// descriptor that no frame announced is an error. Not thread-safe; owned by one link. It never
// reads or writes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/runtime/buffer.h"
#include "overlord/runtime/descriptor.h"

namespace overlord::transport {

inline constexpr size_t kFrameHeadBytes = 16;
inline constexpr uint32_t kFrameDescriptors = 32;  // the most that one frame may carry

using FrameHead = std::array<char, kFrameHeadBytes>;
FrameHead frame_head(uint32_t descriptors, uint64_t size_bytes);

struct ReceivedFrame {
  runtime::Bytes payload;
  std::vector<runtime::Descriptor> descriptors;
};

class FrameReader {
 public:
  explicit FrameReader(uint64_t max_frame_bytes) : max_frame_bytes_(max_frame_bytes) {}

  // Where the next bytes go: straight into the frame under way when much of it is missing, else
  // `scratch`, which may then hold many frames.
  std::span<char> space(std::span<char> scratch);
  // `size_bytes` were put at the begin of space(), and these descriptors came with them. Complete
  // frames are added to `frames`. kBadData for what is no frame; the reader is of no use then.
  Status arrived(std::span<char> scratch, size_t size_bytes,
                 std::vector<runtime::Descriptor> descriptors, std::vector<ReceivedFrame>* frames);
  bool in_mid_frame() const { return head_filled_ > 0; }

 private:
  Status begin_frame();
  Status end_frame(std::vector<ReceivedFrame>* frames);
  Status check_descriptors() const;

  const uint64_t max_frame_bytes_;
  FrameHead head_ = {};
  size_t head_filled_ = 0;
  uint32_t announced_ = 0;
  std::shared_ptr<char[]> payload_;
  uint64_t payload_bytes_ = 0;
  uint64_t payload_filled_ = 0;
  bool direct_ = false;  // what space() said last
  std::deque<runtime::Descriptor> pending_;
};

}  // namespace overlord::transport
