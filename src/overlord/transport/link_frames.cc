#include "overlord/transport/link_frames.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

namespace overlord::transport {
namespace {

constexpr char kMagic[4] = {'O', 'V', 'L', 'F'};
constexpr uint64_t kDirectBytes = 32 << 10;  // below it a copy is cheaper than a call of its own

void put(char* out, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out[i] = static_cast<char>(value >> (8 * i));
}

uint64_t get(const char* in, int width) {
  uint64_t value = 0;
  for (int i = 0; i < width; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(in[i])) << (8 * i);
  }
  return value;
}

}  // namespace

FrameHead frame_head(uint32_t descriptors, uint64_t size_bytes) {
  FrameHead head;
  std::copy_n(kMagic, sizeof(kMagic), head.data());
  put(head.data() + 4, descriptors, 4);
  put(head.data() + 8, size_bytes, 8);
  return head;
}

std::span<char> FrameReader::space(std::span<char> scratch) {
  const uint64_t missing = payload_ ? payload_bytes_ - payload_filled_ : 0;
  direct_ = missing >= kDirectBytes;
  if (!direct_) return scratch;
  return {payload_.get() + payload_filled_, static_cast<size_t>(missing)};
}

Status FrameReader::arrived(std::span<char> scratch, size_t size_bytes,
                            std::vector<runtime::Descriptor> descriptors,
                            std::vector<ReceivedFrame>* frames) {
  for (runtime::Descriptor& descriptor : descriptors) pending_.push_back(std::move(descriptor));
  if (direct_) {
    payload_filled_ += size_bytes;
    if (payload_filled_ == payload_bytes_) OVERLORD_RETURN_IF_ERROR(end_frame(frames));
    return check_descriptors();
  }
  const char* next = scratch.data();
  const char* const end = next + size_bytes;
  while (next < end) {
    if (head_filled_ < kFrameHeadBytes) {
      const size_t count = std::min<size_t>(kFrameHeadBytes - head_filled_, end - next);
      std::copy_n(next, count, head_.data() + head_filled_);
      head_filled_ += count;
      next += count;
      if (head_filled_ < kFrameHeadBytes) break;
      OVERLORD_RETURN_IF_ERROR(begin_frame());
    }
    const size_t count = std::min<uint64_t>(payload_bytes_ - payload_filled_, end - next);
    if (count > 0) std::memcpy(payload_.get() + payload_filled_, next, count);
    payload_filled_ += count;
    next += count;
    if (payload_filled_ == payload_bytes_) OVERLORD_RETURN_IF_ERROR(end_frame(frames));
  }
  return check_descriptors();
}

Status FrameReader::begin_frame() {
  if (std::memcmp(head_.data(), kMagic, sizeof(kMagic)) != 0) {
    return bad_data("what it sent does not begin like a frame");
  }
  const uint64_t announced = get(head_.data() + 4, 4);
  const uint64_t size_bytes = get(head_.data() + 8, 8);
  if (announced > kFrameDescriptors) {
    return bad_data("a frame with " + std::to_string(announced) + " descriptors, at most " +
                    std::to_string(kFrameDescriptors) + " are allowed");
  }
  if (size_bytes > max_frame_bytes_) {
    return bad_data("a frame of " + std::to_string(size_bytes) + " bytes, at most " +
                    std::to_string(max_frame_bytes_) + " are allowed");
  }
  announced_ = static_cast<uint32_t>(announced);
  payload_bytes_ = size_bytes;
  payload_filled_ = 0;
  // Not touched before bytes arrive: a frame that is only announced costs addresses, no memory.
  payload_.reset(size_bytes == 0 ? nullptr : new (std::nothrow) char[size_bytes]);
  if (size_bytes > 0 && !payload_) {
    return {Code::kResource, "no memory for a frame of " + std::to_string(size_bytes) + " bytes"};
  }
  return {};
}

Status FrameReader::end_frame(std::vector<ReceivedFrame>* frames) {
  if (pending_.size() < announced_) {
    return bad_data("a frame announced " + std::to_string(announced_) +
                    " descriptors and came with " + std::to_string(pending_.size()));
  }
  ReceivedFrame frame;
  const char* data = payload_.get();
  frame.payload = {std::move(payload_), data, static_cast<size_t>(payload_bytes_)};
  for (uint32_t i = 0; i < announced_; ++i) {
    frame.descriptors.push_back(std::move(pending_.front()));
    pending_.pop_front();
  }
  frames->push_back(std::move(frame));
  payload_.reset();
  head_filled_ = 0;
  announced_ = 0;
  payload_bytes_ = payload_filled_ = 0;
  return {};
}

// Descriptors come with the first byte of their frame. So between two reads the only ones waiting
// are those of the frame under way; while its head is incomplete, any number up to the limit may
// be.
Status FrameReader::check_descriptors() const {
  const size_t allowed = head_filled_ == 0                ? 0
                         : head_filled_ < kFrameHeadBytes ? size_t{kFrameDescriptors}
                                                          : announced_;
  if (pending_.size() <= allowed) return {};
  return bad_data(std::to_string(pending_.size() - allowed) +
                  " descriptors that were not announced");
}

}  // namespace overlord::transport
