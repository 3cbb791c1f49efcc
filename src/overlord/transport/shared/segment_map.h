// SegmentMap: the segments of one owner, as a reader has them. It takes descriptors, believes
// nothing before it is checked (seals, size), maps for reading only, and gives bounds-checked views
// whose last release is told to a callback, so that the owner learns of it. A map lives as long as
// a view of it is held, also when the owner is dead and this object gone. Thread-safe; owned by the
// reader, one per owner. Writing through a view kills the process, unless it has private pages:
// then every call of whole() gives a map of its own, in which a write makes a copy of the page that
// nobody else sees and that goes with the map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/buffer.h"
#include "overlord/runtime/descriptor.h"
#include "overlord/transport/shared/host_pinning.h"
#include "overlord/transport/shared/shared_segment.h"

namespace overlord::transport {

struct SegmentMapOptions {
  uint64_t limit_bytes = uint64_t{1} << 40;  // of addresses, all segments together
  size_t limit_segments = 4096;
  bool prefault = false;       // fill the page table when a segment is mapped (about 10 GB/s)
  bool private_pages = false;  // of whole(): may be written; segments then keep their descriptors
  std::shared_ptr<HostPinning> pinning =
      nullptr;  // registers every map as long as it lives; null: nobody
};

class SegmentMap {
 public:
  // Called once, in the thread that lets go last; must not throw or block.
  using Released = std::function<void()>;

  explicit SegmentMap(SegmentMapOptions options = {}) : options_(std::move(options)) {}
  SegmentMap(const SegmentMap&) = delete;
  SegmentMap& operator=(const SegmentMap&) = delete;

  // kBadData when the file is not what was announced (kind, seals, size) or the id is taken,
  // kResource when a limit is reached or the system refuses. The descriptor is closed either way.
  Status add(SegmentId id, uint64_t size_bytes, runtime::Descriptor descriptor);
  // No more views of it; its pages go when the last view does. False when it is not known.
  bool forget(SegmentId id);

  // kBadData when the segment is not known or the range not inside it: `released` is then dropped
  // uncalled, since nothing was taken.
  Result<runtime::Bytes> view(SegmentRef ref, uint64_t size_bytes, Released released);
  // All of a segment, for who looks at many places in it; kBadData when it is not known, kResource
  // when the system refuses a map with private pages.
  Result<runtime::Bytes> whole(SegmentId id);

  size_t segments() const;
  uint64_t mapped_bytes() const;  // without those forgotten
  uint64_t refused_count() const;

 private:
  class Mapping;
  struct View;
  Status refuse(Status why);
  Result<std::shared_ptr<const Mapping>> map_checked(SegmentId id, uint64_t size_bytes,
                                                     runtime::Descriptor descriptor);

  const SegmentMapOptions options_;
  mutable std::mutex mutex_;
  std::map<SegmentId, std::shared_ptr<const Mapping>> mappings_ OVERLORD_GUARDED_BY(mutex_);
  uint64_t mapped_bytes_ OVERLORD_GUARDED_BY(mutex_) = 0;
  uint64_t refused_count_ OVERLORD_GUARDED_BY(mutex_) = 0;
};

}  // namespace overlord::transport
