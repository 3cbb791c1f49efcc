#include "overlord/workers/item_slab.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace overlord::workers {
namespace {

Status refused(const char* call, uint64_t size_bytes) {
  return {Code::kResource, std::string(call) + " of " + std::to_string(size_bytes) +
                               " bytes for media of a transform: " + std::strerror(errno)};
}

}  // namespace

Result<std::unique_ptr<ItemSlab>> ItemSlab::make(uint64_t size_bytes) {
  runtime::Descriptor file(memfd_create("overlord-items", MFD_CLOEXEC));
  if (!file.valid()) return refused("memfd_create", size_bytes);
  if (ftruncate(file.get(), static_cast<off_t>(size_bytes)) != 0) {
    return refused("ftruncate", size_bytes);
  }
  struct stat found = {};
  if (fstat(file.get(), &found) != 0) return refused("fstat", size_bytes);
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return refused("mmap", size_bytes);
  return std::unique_ptr<ItemSlab>(
      new ItemSlab(std::move(file), static_cast<uint8_t*>(data), size_bytes, found.st_ino));
}

ItemSlab::ItemSlab(runtime::Descriptor file, uint8_t* data, uint64_t size_bytes, uint64_t inode)
    : file_(std::move(file)),
      data_(data),
      size_bytes_(size_bytes),
      inode_(inode),
      path_("/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file_.get())) {}

ItemSlab::~ItemSlab() { munmap(data_, size_bytes_); }

}  // namespace overlord::workers
