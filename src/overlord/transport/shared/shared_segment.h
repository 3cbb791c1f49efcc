// SharedSegment: one run of memory that other processes of this user can map for reading. A memfd
// that is sized once, mapped writable by its maker alone, and then sealed: nobody can shrink or
// grow it, map it for writing or write to it from then on, and nobody can add or lift a seal.
// It has no name in any file system: it is gone with its last map and descriptor.
// Owned by the pool that carves it up; immutable once made, so its methods are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "overlord/base/status.h"
#include "overlord/runtime/descriptor.h"
#include "overlord/transport/shared/host_pinning.h"

namespace overlord::transport {

using SegmentId = uint64_t;  // counted from 1 by its pool, never used again

// A place inside a segment, as one process tells it to another.
struct SegmentRef {
  SegmentId segment = 0;
  uint64_t offset = 0;

  friend bool operator==(const SegmentRef&, const SegmentRef&) = default;
};

// Ok when nobody can change the size of the file behind `descriptor` any more, or write to it
// through a map that is yet to be made, and it has at least `size_bytes`. Reading a map of it can
// then neither fault nor be made to. `what` names it in messages.
Status check_sealed(int descriptor, uint64_t size_bytes, const std::string& what);

class SharedSegment {
 public:
  // `size_bytes` is rounded up to whole pages. With `prefault` every page is touched now (about
  // 1 GB/s), else by whoever writes first. kResource when the system refuses.
  // `pinning` registers it as long as it lives; null: nobody does.
  static Result<std::shared_ptr<const SharedSegment>> make(
      SegmentId id, const std::string& name, size_t size_bytes, bool prefault,
      std::shared_ptr<HostPinning> pinning = nullptr);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  SegmentId id() const { return id_; }
  char* data() const { return data_; }  // aligned to kAlignment, inaccessible memory after its end
  size_t size_bytes() const { return size_bytes_; }
  int descriptor() const { return descriptor_.get(); }
  const runtime::Descriptor& file() const { return descriptor_; }

  static constexpr size_t kAlignment = 2 << 20;  // so that huge pages fit where the host has them

 private:
  SharedSegment(SegmentId id, runtime::Descriptor descriptor, size_t size_bytes);
  Status map();
  Status prefault() const;

  const SegmentId id_;
  const runtime::Descriptor descriptor_;
  const size_t size_bytes_;
  char* reserved_ = nullptr;  // the addresses, guard included
  std::shared_ptr<HostPinning> pinned_by_;
  size_t reserved_bytes_ = 0;
  char* data_ = nullptr;
};

}  // namespace overlord::transport
