#include "overlord/transport/shared/shared_pool.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/transport/shared/free_ranges.h"

namespace overlord::transport {
namespace {

using Segment = std::shared_ptr<const SharedSegment>;

constexpr size_t kUnit = 64 << 10;  // whole pages on every machine we build for

uintptr_t address_of(const void* data) { return reinterpret_cast<uintptr_t>(data); }

}  // namespace

// The segments and their free ranges. Two locks: `mutex_` is held for a few steps of bookkeeping,
// `growing_` while a segment is made, which takes tens of milliseconds and stops nobody who only
// takes or gives back. `growing_` is taken first.
class SharedPool::Source final : public runtime::MemorySource {
 public:
  Source(SharedPoolOptions options, Retired retired)
      : options_(std::move(options)), retired_(std::move(retired)) {}

  runtime::MemoryPiece take(size_t size_bytes) override {
    {
      std::lock_guard lock(mutex_);
      if (char* data = take_free(size_bytes)) return {data, false};
    }
    std::vector<Segment> dropped;
    Result<char*> data = grow_and_take(size_bytes, &dropped);
    for (const Segment& segment : dropped) {
      if (retired_) retired_(segment->id());
    }
    return {data.ok() ? *data : nullptr, true};
  }

  void give_back(char* data, size_t size_bytes) override {
    std::lock_guard lock(mutex_);
    free_.give_back(address_of(data), size_bytes);
    stats_.held_bytes -= size_bytes;
  }

  Status refusal(size_t size_bytes) const override {
    std::lock_guard lock(mutex_);
    if (!system_refusal_.ok()) return system_refusal_;
    return {Code::kResource,
            "the shared pool " + options_.name + " has no room for " + std::to_string(size_bytes) +
                " bytes: " + std::to_string(stats_.held_bytes) + " are held in " +
                std::to_string(stats_.segments) + " segments of " +
                std::to_string(stats_.segment_bytes) + " bytes, the limit is " +
                std::to_string(options_.limit_bytes) + "; let go of views, or raise the limit"};
  }

  Status make_first() {
    std::lock_guard growing(growing_);
    std::vector<Segment> none;
    char* data = nullptr;
    return grow(0, &none, &data);
  }

  std::optional<SegmentRef> find(const void* address) const {
    std::lock_guard lock(mutex_);
    auto found = by_address_.upper_bound(address_of(address));
    if (found == by_address_.begin()) return std::nullopt;
    const Segment& segment = (--found)->second;
    const size_t offset = address_of(address) - found->first;
    if (offset >= segment->size_bytes()) return std::nullopt;
    return SegmentRef{segment->id(), offset};
  }

  Segment segment(SegmentId id) const {
    std::lock_guard lock(mutex_);
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second;
  }

  SharedPoolStats stats() const {
    std::lock_guard lock(mutex_);
    SharedPoolStats stats = stats_;
    stats.largest_free_bytes = free_.largest_bytes();
    return stats;
  }

 private:
  char* take_free(size_t size_bytes) OVERLORD_REQUIRES(mutex_) {
    const std::optional<uintptr_t> begin = free_.take(size_bytes);
    if (!begin) return nullptr;
    stats_.held_bytes += size_bytes;
    return reinterpret_cast<char*>(*begin);
  }

  Result<char*> grow_and_take(size_t size_bytes, std::vector<Segment>* dropped) {
    std::lock_guard growing(growing_);
    {
      std::lock_guard lock(mutex_);  // another thread may have grown while we waited
      if (char* data = take_free(size_bytes)) return data;
    }
    char* data = nullptr;
    const Status grown = grow(size_bytes, dropped, &data);
    if (grown.ok()) return data;
    std::lock_guard lock(mutex_);
    system_refusal_ = grown.code() == Code::kOutOfRange ? Status() : grown;
    ++stats_.refused_count;
    return grown;
  }

  // Takes `size_bytes` under the lock under which the new segment appears, so that nobody is
  // faster. kOutOfRange: it would pass the limit. kResource: the system has said no.
  Status grow(size_t size_bytes, std::vector<Segment>* dropped, char** data)
      OVERLORD_REQUIRES(growing_) {
    const size_t needed = std::max((size_bytes + kUnit - 1) / kUnit * kUnit, kUnit);
    if (needed > options_.limit_bytes) return {Code::kOutOfRange, "larger than the limit"};
    size_t wanted = 0;
    {
      std::lock_guard lock(mutex_);
      if (options_.limit_bytes - stats_.segment_bytes < needed) {
        retire_free_segments(needed, dropped);
      }
      const uint64_t room = options_.limit_bytes - stats_.segment_bytes;
      if (room < needed) return {Code::kOutOfRange, "no room below the limit"};
      wanted = std::max<uint64_t>(needed, std::min<uint64_t>(next_bytes(), room));
      stats_.segment_bytes += wanted;  // ours from here on; given back below when it fails
    }
    auto made =
        SharedSegment::make(++last_id_, options_.name, wanted, options_.prefault, options_.pinning);
    std::lock_guard lock(mutex_);
    stats_.segment_bytes -= wanted;
    if (!made.ok()) return made.status();
    adopt(std::move(*made));
    if (size_bytes > 0) *data = take_free(size_bytes);
    return {};
  }

  uint64_t next_bytes() const OVERLORD_REQUIRES(mutex_) {
    if (options_.first_bytes == 0) return options_.segment_bytes;
    const uint64_t quarter = stats_.segment_bytes / 4 / kUnit * kUnit;
    return std::clamp<uint64_t>(quarter, options_.first_bytes, options_.segment_bytes);
  }

  void adopt(Segment segment) OVERLORD_REQUIRES(mutex_) {
    free_.add(address_of(segment->data()), segment->size_bytes());
    stats_.segment_bytes += segment->size_bytes();
    ++stats_.segments;
    ++stats_.made_count;
    by_id_.emplace(segment->id(), segment);
    by_address_.emplace(address_of(segment->data()), std::move(segment));
  }

  // Segments without any buffer make room for one that fits what is asked. Only as many as that
  // takes, and none when all of them would not be enough.
  void retire_free_segments(size_t needed, std::vector<Segment>* dropped)
      OVERLORD_REQUIRES(mutex_) {
    const uint64_t room = options_.limit_bytes - stats_.segment_bytes;
    uint64_t won = 0;
    std::vector<Segment> chosen;
    for (const auto& [begin, segment] : by_address_) {
      if (room + won >= needed) break;
      if (!free_.is_free(begin, segment->size_bytes())) continue;
      won += segment->size_bytes();
      chosen.push_back(segment);
    }
    if (room + won < needed) return;
    for (Segment& segment : chosen) {
      free_.remove(address_of(segment->data()), segment->size_bytes());
      by_address_.erase(address_of(segment->data()));
      by_id_.erase(segment->id());
      stats_.segment_bytes -= segment->size_bytes();
      --stats_.segments;
      dropped->push_back(std::move(segment));
    }
  }

  const SharedPoolOptions options_;
  const Retired retired_;
  std::mutex growing_;
  SegmentId last_id_ OVERLORD_GUARDED_BY(growing_) = 0;  // under growing_

  mutable std::mutex mutex_;
  FreeRanges free_ OVERLORD_GUARDED_BY(mutex_);
  std::map<uintptr_t, Segment> by_address_ OVERLORD_GUARDED_BY(mutex_);
  std::map<SegmentId, Segment> by_id_ OVERLORD_GUARDED_BY(mutex_);
  SharedPoolStats stats_ OVERLORD_GUARDED_BY(mutex_);
  Status system_refusal_ OVERLORD_GUARDED_BY(mutex_);
};

// No idle lists on top: the free ranges already are touched memory, and merge.
SharedPool::SharedPool(std::shared_ptr<Source> source)
    : source_(std::move(source)), buffers_(runtime::BufferPool::make(0, source_)) {}

Result<std::shared_ptr<SharedPool>> SharedPool::make(SharedPoolOptions options, Retired retired) {
  if (options.segment_bytes == 0 || options.limit_bytes < kUnit) {
    return invalid_argument("a shared pool needs segments and a limit of at least " +
                            std::to_string(kUnit) + " bytes");
  }
  // Segments are whole pages, so the limit is one too.
  options.limit_bytes = options.limit_bytes / kUnit * kUnit;
  options.segment_bytes = (options.segment_bytes + kUnit - 1) / kUnit * kUnit;
  options.first_bytes =
      std::min((options.first_bytes + kUnit - 1) / kUnit * kUnit, options.segment_bytes);
  auto source = std::make_shared<Source>(std::move(options), std::move(retired));
  OVERLORD_RETURN_IF_ERROR(source->make_first());
  return std::shared_ptr<SharedPool>(new SharedPool(std::move(source)));
}

Result<runtime::Buffer> SharedPool::acquire(size_t size_bytes) {
  runtime::Buffer buffer = buffers_->acquire(size_bytes);
  if (buffer.data == nullptr) return buffers_->refusal(size_bytes);
  return buffer;
}

std::optional<SegmentRef> SharedPool::find(const void* address) const {
  return source_->find(address);
}

std::shared_ptr<const SharedSegment> SharedPool::segment(SegmentId id) const {
  return source_->segment(id);
}

int SharedPool::descriptor(SegmentId id) const {
  const auto found = source_->segment(id);
  return found ? found->descriptor() : -1;
}

std::shared_ptr<const runtime::Descriptor> SharedPool::held_descriptor(SegmentId id) const {
  auto found = source_->segment(id);
  if (!found) return nullptr;
  const runtime::Descriptor* file = &found->file();
  return {std::move(found), file};
}

SharedPoolStats SharedPool::stats() const { return source_->stats(); }

}  // namespace overlord::transport
