// SharedPool: a BufferPool whose memory other processes of this host can map. Buffers lie at
// 64-byte offsets in a few large segments, so that a sender describes any of them by (segment,
// offset, size) and passes a segment's descriptor once. Segments are made when they are first
// needed, touched once, carved and merged again for ever, and bounded in all by `limit_bytes`.
// Thread-safe; owned by the node. Buffers may outlive it. It knows no peers: see LeaseBook.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "overlord/base/status.h"
#include "overlord/runtime/buffer.h"
#include "overlord/transport/shared/shared_segment.h"

namespace overlord::transport {

struct SharedPoolOptions {
  std::string name = "pool";        // segments are called overlord-NAME-ID in maps of processes
  size_t segment_bytes = 64 << 20;  // larger for a buffer that needs it
  uint64_t limit_bytes = uint64_t{4} << 30;  // of all segments together
  bool prefault = true;                      // touch a segment's pages when it is made
  // Of the first segment; later ones are a quarter of what there is, from here to `segment_bytes`,
  // so that little lies unused in a small pool. 0: all are of `segment_bytes`.
  size_t first_bytes = 0;
  std::shared_ptr<HostPinning> pinning = nullptr;  // registers every segment; null: nobody does
};

struct SharedPoolStats {
  uint64_t segments = 0;
  uint64_t segment_bytes = 0;  // of all segments
  uint64_t held_bytes = 0;     // in buffers now
  uint64_t largest_free_bytes = 0;
  uint64_t made_count = 0;     // segments ever made: the only time pages are touched first
  uint64_t refused_count = 0;  // requests that did not fit
};

class SharedPool {
 public:
  // Called with no lock held, from the thread that asked for memory, when a segment without any
  // buffer is given up: whoever passed it on tells its peers to forget it, or they keep its pages.
  using Retired = std::function<void(SegmentId)>;

  // Makes the first segment at once, so that a host that cannot share memory is known at start.
  static Result<std::shared_ptr<SharedPool>> make(SharedPoolOptions options,
                                                  Retired retired = nullptr);

  // The drop-in: every buffer of it is in a segment.
  const std::shared_ptr<runtime::BufferPool>& buffers() const { return buffers_; }
  // The same with the refusal as a value: kResource, naming what is held and the limit.
  Result<runtime::Buffer> acquire(size_t size_bytes);

  // Where `address` lies; nothing when it is in no segment of this pool.
  std::optional<SegmentRef> find(const void* address) const;
  // Null when there is no such segment (any more). Holding it keeps its descriptor open.
  std::shared_ptr<const SharedSegment> segment(SegmentId id) const;
  // -1 when there is no such segment; good as long as a buffer in it is held.
  int descriptor(SegmentId id) const;
  // The same for a frame that waits to be sent: stays open as long as it is held. May be null.
  std::shared_ptr<const runtime::Descriptor> held_descriptor(SegmentId id) const;

  SharedPoolStats stats() const;

 private:
  class Source;
  explicit SharedPool(std::shared_ptr<Source> source);

  const std::shared_ptr<Source> source_;
  const std::shared_ptr<runtime::BufferPool> buffers_;
};

}  // namespace overlord::transport
