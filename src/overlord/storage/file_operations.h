// FileOperations: the system calls with which a journal is written. The class makes them as they
// are; a test derives from it to answer with a full or a broken disk, or to look in between.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "overlord/base/status.h"

namespace overlord::storage {

// What was done when a call failed, and its errno; 0: nothing failed.
struct FileError {
  const char* doing = "";
  int code = 0;

  bool full() const { return code == ENOSPC || code == EDQUOT; }
};

// kResource, naming the journal's file or folder.
Status journal_error(const std::string& path, const FileError& error);

class FileOperations {
 public:
  virtual ~FileOperations() = default;

  // Each answers 0 or an errno; a call that was interrupted is made again.
  virtual int create(const std::string& path, int* fd);  // 0600; EEXIST where there is one
  virtual int reserve(int fd, uint64_t offset, uint64_t size_bytes);  // the file's size stays
  virtual int write(int fd, std::string_view bytes, uint64_t offset, size_t* wrote);
  virtual int cut(int fd, uint64_t size_bytes);
  virtual int sync(int fd);
  virtual int sync_folder(const std::string& folder);
  virtual int remove(const std::string& path);

  static FileOperations& real();
};

}  // namespace overlord::storage
