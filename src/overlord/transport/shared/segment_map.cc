#include "overlord/transport/shared/segment_map.h"

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace overlord::transport {
namespace {

std::string name_of(SegmentId id) { return "shared segment " + std::to_string(id); }

}  // namespace

class SegmentMap::Mapping {
 public:
  Mapping(const char* data, size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}
  ~Mapping() {
    if (pinned_by_) pinned_by_->unpin(data_);
    munmap(const_cast<char*>(data_), size_bytes_);
  }
  static Result<std::shared_ptr<Mapping>> make(int file, size_t size_bytes, int protection,
                                               int flags, const std::string& what) {
    void* data = mmap(nullptr, size_bytes, protection, flags, file, 0);
    if (data == MAP_FAILED) {
      return Status(Code::kResource, "cannot map " + what + " of " + std::to_string(size_bytes) +
                                         " bytes: " + std::generic_category().message(errno));
    }
    return std::make_shared<Mapping>(static_cast<const char*>(data), size_bytes);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  Status pin(std::shared_ptr<HostPinning> pinning) {
    OVERLORD_RETURN_IF_ERROR(pinning->pin(data_, size_bytes_));
    pinned_by_ = std::move(pinning);
    return {};
  }

  // The file stays open, for maps with private pages.
  void keep(runtime::Descriptor file) { file_ = std::move(file); }

  const char* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }
  const runtime::Descriptor& file() const { return file_; }

 private:
  runtime::Descriptor file_;
  std::shared_ptr<HostPinning> pinned_by_;
  const char* const data_;
  const size_t size_bytes_;
};

struct SegmentMap::View {
  View(std::shared_ptr<const Mapping> mapped, Released callback)
      : mapping(std::move(mapped)), released(std::move(callback)) {}
  ~View() {
    if (released) released();
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  const std::shared_ptr<const Mapping> mapping;
  const Released released;
};

Status SegmentMap::refuse(Status why) {
  std::lock_guard lock(mutex_);
  ++refused_count_;
  return why;
}

Result<std::shared_ptr<const SegmentMap::Mapping>> SegmentMap::map_checked(
    SegmentId id, uint64_t size_bytes, runtime::Descriptor descriptor) {
  if (!descriptor.valid()) return bad_data(name_of(id) + " came without a descriptor");
  OVERLORD_RETURN_IF_ERROR(check_sealed(descriptor.get(), size_bytes, name_of(id)));
  const int flags = MAP_SHARED | (options_.prefault ? MAP_POPULATE : 0);
  OVERLORD_TRY(const std::shared_ptr<Mapping> mapping,
               Mapping::make(descriptor.get(), size_bytes, PROT_READ, flags, name_of(id)));
  if (options_.pinning) OVERLORD_RETURN_IF_ERROR(mapping->pin(options_.pinning));
  if (options_.private_pages) mapping->keep(std::move(descriptor));
  return std::shared_ptr<const Mapping>(mapping);
}

Status SegmentMap::add(SegmentId id, uint64_t size_bytes, runtime::Descriptor descriptor) {
  {
    std::lock_guard lock(mutex_);
    if (mappings_.size() >= options_.limit_segments ||
        size_bytes > options_.limit_bytes - mapped_bytes_) {
      ++refused_count_;
      return {Code::kResource, "cannot map " + name_of(id) + " of " + std::to_string(size_bytes) +
                                   " bytes: " + std::to_string(mappings_.size()) +
                                   " segments with " + std::to_string(mapped_bytes_) +
                                   " bytes are mapped, the limits are " +
                                   std::to_string(options_.limit_segments) + " and " +
                                   std::to_string(options_.limit_bytes)};
    }
  }
  auto mapping = map_checked(id, size_bytes, std::move(descriptor));
  if (!mapping.ok()) return refuse(mapping.status());
  std::lock_guard lock(mutex_);
  if (!mappings_.emplace(id, *mapping).second) {
    ++refused_count_;
    return bad_data(name_of(id) + " was announced twice");
  }
  mapped_bytes_ += size_bytes;
  return {};
}

bool SegmentMap::forget(SegmentId id) {
  std::shared_ptr<const Mapping> forgotten;  // unmapped outside the lock
  std::lock_guard lock(mutex_);
  const auto found = mappings_.find(id);
  if (found == mappings_.end()) return false;
  mapped_bytes_ -= found->second->size_bytes();
  forgotten = std::move(found->second);
  mappings_.erase(found);
  return true;
}

Result<runtime::Bytes> SegmentMap::view(SegmentRef ref, uint64_t size_bytes, Released released) {
  std::shared_ptr<const Mapping> mapping;
  {
    std::lock_guard lock(mutex_);
    const auto found = mappings_.find(ref.segment);
    if (found != mappings_.end()) mapping = found->second;
  }
  if (!mapping) return refuse(bad_data(name_of(ref.segment) + " is not known here"));
  if (ref.offset > mapping->size_bytes() || size_bytes > mapping->size_bytes() - ref.offset) {
    return refuse(bad_data("offset " + std::to_string(ref.offset) + ", size " +
                           std::to_string(size_bytes) + " is not inside " + name_of(ref.segment) +
                           " of " + std::to_string(mapping->size_bytes()) + " bytes"));
  }
  const char* data = mapping->data() + ref.offset;
  auto view = std::make_shared<const View>(std::move(mapping), std::move(released));
  return runtime::Bytes{std::move(view), data, size_bytes};
}

Result<runtime::Bytes> SegmentMap::whole(SegmentId id) {
  std::shared_ptr<const Mapping> mapping;
  {
    std::lock_guard lock(mutex_);
    const auto found = mappings_.find(id);
    if (found != mappings_.end()) mapping = found->second;
  }
  if (!mapping) return refuse(bad_data(name_of(id) + " is not known here"));
  if (options_.private_pages) {
    // Not reserved: few pages are ever written. Never populated: that would copy every one of them.
    OVERLORD_TRY(mapping,
                 Mapping::make(mapping->file().get(), mapping->size_bytes(), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_NORESERVE, name_of(id) + " with private pages"));
  }
  const char* data = mapping->data();
  const size_t size_bytes = mapping->size_bytes();
  return runtime::Bytes{std::move(mapping), data, size_bytes};
}

size_t SegmentMap::segments() const {
  std::lock_guard lock(mutex_);
  return mappings_.size();
}

uint64_t SegmentMap::mapped_bytes() const {
  std::lock_guard lock(mutex_);
  return mapped_bytes_;
}

uint64_t SegmentMap::refused_count() const {
  std::lock_guard lock(mutex_);
  return refused_count_;
}

}  // namespace overlord::transport
