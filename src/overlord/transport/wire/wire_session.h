// WireSession: one side's part of a wire link that does not depend on Flight: what was sent and not
// yet taken, what was heard, large frames that wait to be pulled. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/buffer.h"
#include "overlord/transport/wire/wire.h"

namespace overlord::transport {

// A frame, or where to pull one.
struct WireFrame {
  uint64_t bulk = 0;  // 0: `bytes` is the frame; else its number, `size_bytes` long
  uint64_t size_bytes = 0;
  std::string bytes;

  friend bool operator==(const WireFrame&, const WireFrame&) = default;
};

// Frames first, first + 1, ... as one call carries them.
struct WireBatch {
  uint64_t first = 1;
  std::vector<WireFrame> frames;
};

std::string encode_batch(const WireBatch& batch);
Result<WireBatch> decode_batch(std::string_view bytes, const WireLimits& limits);

// Frames to the other side, kept until it has acknowledged them.
class WireOutbox {
 public:
  WireOutbox(const WireLimits& limits, bool pulled) : limits_(limits), pulled_(pulled) {}

  // False when too much waits: the other side takes nothing.
  bool put(std::string frame);
  bool put_held(const runtime::Bytes& frame);  // pulled from where it lies, if it is large
  // What comes after `acknowledged`, at most about a megabyte; waits up to `wait_ns` for the first.
  // Closed: empty at once.
  WireBatch take(uint64_t acknowledged, int64_t wait_ns);
  // A large frame that is being pulled; nothing when it is not there.
  std::optional<runtime::Bytes> bulk(uint64_t number) const;
  void release(uint64_t number);
  void close();

 private:
  bool put_bulk(runtime::Bytes frame);
  bool fits(uint64_t size_bytes) const OVERLORD_REQUIRES(mutex_);

  const WireLimits limits_;
  const bool pulled_;  // the other side pulls large frames
  mutable std::mutex mutex_;
  std::condition_variable grown_;
  std::deque<WireFrame> frames_ OVERLORD_GUARDED_BY(mutex_);
  uint64_t first_ OVERLORD_GUARDED_BY(mutex_) = 1;  // number of frames_.front()
  uint64_t bytes_ OVERLORD_GUARDED_BY(mutex_) = 0;
  uint64_t last_bulk_ OVERLORD_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, runtime::Bytes> bulks_ OVERLORD_GUARDED_BY(mutex_);
  bool closed_ OVERLORD_GUARDED_BY(mutex_) = false;
};

// Frames from the other side, each once.
class WireInbox {
 public:
  // Those of a batch that are new; kBadData when one is missing before them.
  Result<std::vector<WireFrame>> accept(WireBatch batch);
  uint64_t last() const { return last_; }

 private:
  uint64_t last_ = 0;
};

}  // namespace overlord::transport
