#include "overlord/transport/shared/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

// What libraries older than the kernels we run on do not name.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace overlord::transport {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
// F_SEAL_WRITE would be refused under our own writable map; this one leaves that map alone and
// stops every other way to write.
constexpr int kOurSeals = kSizeSeals | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

size_t page_bytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t round_up(size_t size_bytes, size_t unit) { return (size_bytes + unit - 1) / unit * unit; }

Status refused(const std::string& what, int error) {
  return {Code::kResource, "cannot " + what + ": " + std::generic_category().message(error)};
}

// Kernels before 6.3 do not know that a memfd can be made without leave to execute it, and later
// ones may be set to refuse any other.
int make_memfd(const std::string& name) {
  const int made = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (made >= 0 || errno != EINVAL) return made;
  return memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

}  // namespace

Status check_sealed(int descriptor, uint64_t size_bytes, const std::string& what) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0) return bad_data(what + " is no memory file: it cannot have seals");
  const bool size_fixed = (seals & kSizeSeals) == kSizeSeals;
  const bool read_only = (seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)) != 0;
  if (!size_fixed || !read_only || (seals & F_SEAL_SEAL) == 0) {
    return bad_data(what + " is not sealed against changes of its size and contents: seals " +
                    std::to_string(seals) + ", needed " + std::to_string(kOurSeals));
  }
  struct stat info = {};
  if (fstat(descriptor, &info) != 0) return refused("look at " + what, errno);
  if (info.st_size < 0 || static_cast<uint64_t>(info.st_size) < size_bytes || size_bytes == 0) {
    return bad_data(what + " has " + std::to_string(info.st_size) + " bytes, announced were " +
                    std::to_string(size_bytes));
  }
  return {};
}

SharedSegment::SharedSegment(SegmentId id, runtime::Descriptor descriptor, size_t size_bytes)
    : id_(id), descriptor_(std::move(descriptor)), size_bytes_(size_bytes) {}

SharedSegment::~SharedSegment() {
  if (pinned_by_) pinned_by_->unpin(data_);
  if (reserved_ != nullptr) munmap(reserved_, reserved_bytes_);
}

Result<std::shared_ptr<const SharedSegment>> SharedSegment::make(
    SegmentId id, const std::string& name, size_t size_bytes, bool prefault,
    std::shared_ptr<HostPinning> pinning) {
  runtime::Descriptor file(make_memfd("overlord-" + name + "-" + std::to_string(id)));
  if (!file.valid()) return refused("make a shared memory segment", errno);
  const size_t size = round_up(size_bytes == 0 ? 1 : size_bytes, page_bytes());
  if (ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
    return refused("size a shared memory segment to " + std::to_string(size) + " bytes", errno);
  }
  std::shared_ptr<SharedSegment> segment(new SharedSegment(id, std::move(file), size));
  OVERLORD_RETURN_IF_ERROR(segment->map());
  if (prefault) OVERLORD_RETURN_IF_ERROR(segment->prefault());
  if (pinning) {
    OVERLORD_RETURN_IF_ERROR(pinning->pin(segment->data_, size));
    segment->pinned_by_ = std::move(pinning);
  }
  // Only now: a seal against writing to come would have refused our map too.
  if (fcntl(segment->descriptor(), F_ADD_SEALS, kOurSeals) != 0) {
    return refused("seal a shared memory segment (Linux 5.1 or newer is needed)", errno);
  }
  return std::shared_ptr<const SharedSegment>(std::move(segment));
}

// Maps the file inside a larger reservation, which gives it its alignment and a guard at its end:
// no two segments ever touch, so a free range never spans two of them.
Status SharedSegment::map() {
  reserved_bytes_ = size_bytes_ + kAlignment + page_bytes();
  void* reserved =
      mmap(nullptr, reserved_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return refused("reserve addresses for a segment", errno);
  reserved_ = static_cast<char*>(reserved);
  const auto address = reinterpret_cast<uintptr_t>(reserved_);
  char* aligned = reserved_ + (round_up(address, kAlignment) - address);
  if (mmap(aligned, size_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor(), 0) ==
      MAP_FAILED) {
    return refused("map a segment of " + std::to_string(size_bytes_) + " bytes", errno);
  }
  data_ = aligned;
  madvise(data_, size_bytes_, MADV_HUGEPAGE);  // where the host lets us; else no harm
  return {};
}

Status SharedSegment::prefault() const {
  if (madvise(data_, size_bytes_, MADV_POPULATE_WRITE) == 0) return {};
  if (errno != EINVAL) {
    return refused("get " + std::to_string(size_bytes_) + " bytes of shared memory", errno);
  }
  // Before Linux 5.14 there is no such call: touch each page by hand.
  for (size_t at = 0; at < size_bytes_; at += page_bytes()) {
    *static_cast<volatile char*>(data_ + at) = 0;
  }
  return {};
}

}  // namespace overlord::transport
