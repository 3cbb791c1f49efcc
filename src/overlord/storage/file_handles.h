// FileHandles: an LRU of open descriptors that notices when a path no longer names the same file.
// A handle stays usable by those who hold it after it was evicted. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/model/manifest.h"

namespace overlord::storage {

class FileHandle {
 public:
  FileHandle(int fd, uint64_t device, uint64_t inode) : fd_(fd), device_(device), inode_(inode) {}
  ~FileHandle();
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;

  int fd() const { return fd_; }
  bool is(uint64_t device, uint64_t inode) const { return device_ == device && inode_ == inode; }

 private:
  const int fd_;
  const uint64_t device_;
  const uint64_t inode_;
};

class FileHandles {
 public:
  explicit FileHandles(uint32_t limit) : limit_(limit == 0 ? 1 : limit) {}

  // A descriptor of the regular file at `path` that is `expected` (size and time at every call,
  // sampled content when it is opened); an empty fingerprint expects nothing.
  Result<std::shared_ptr<FileHandle>> get(const std::string& path,
                                          const model::Fingerprint& expected);
  // Whether the open file is still `expected`: asked after a read, so that one which was written
  // meanwhile is never believed.
  static Status recheck(const FileHandle& handle, const std::string& path,
                        const model::Fingerprint& expected);
  size_t open_count() const;

 private:
  using Order = std::list<std::string>;
  struct Entry {
    std::shared_ptr<FileHandle> handle;
    Order::iterator place;
  };

  std::shared_ptr<FileHandle> cached(const std::string& path, uint64_t device, uint64_t inode);
  void keep(const std::string& path, const std::shared_ptr<FileHandle>& handle);
  void drop_all();

  const uint32_t limit_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_ OVERLORD_GUARDED_BY(mutex_);
  Order order_ OVERLORD_GUARDED_BY(mutex_);  // most recently used first
};

// Size, time and sampled content (first and last 64 KiB) of the regular file at `path`.
Result<model::Fingerprint> fingerprint_of(const std::string& path);

}  // namespace overlord::storage
