#include "overlord/storage/file_operations.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "overlord/runtime/quote.h"

namespace overlord::storage {
namespace {

// The errno of a call that answers a negative number when it fails.
template <typename Call>
int made_again_if_interrupted(Call&& call) {
  while (true) {
    if (call() >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

}  // namespace

Status journal_error(const std::string& path, const FileError& error) {
  return {Code::kResource, "journal " + runtime::quote(path) + ": " + error.doing + ": " +
                               std::strerror(error.code) +
                               (error.full() ? "; free some disk space and start again" : "")};
}

int FileOperations::create(const std::string& path, int* fd) {
  return made_again_if_interrupted([&] {
    *fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return *fd;
  });
}

int FileOperations::reserve(int fd, uint64_t offset, uint64_t size_bytes) {
  return made_again_if_interrupted([&] {
    return ::fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                       static_cast<off_t>(size_bytes));
  });
}

int FileOperations::write(int fd, std::string_view bytes, uint64_t offset, size_t* wrote) {
  ssize_t put = 0;
  const int error = made_again_if_interrupted([&] {
    put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    return put;
  });
  *wrote = error == 0 ? static_cast<size_t>(put) : 0;
  return error;
}

int FileOperations::cut(int fd, uint64_t size_bytes) {
  return made_again_if_interrupted([&] { return ::ftruncate(fd, static_cast<off_t>(size_bytes)); });
}

// Never made again: after a failed sync the kernel may have dropped the pages, and the next would
// say that all is well.
int FileOperations::sync(int fd) { return ::fdatasync(fd) == 0 ? 0 : errno; }

int FileOperations::sync_folder(const std::string& folder) {
  int fd = -1;
  const int opened = made_again_if_interrupted([&] {
    fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd;
  });
  if (opened != 0) return opened;
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

int FileOperations::remove(const std::string& path) {
  return made_again_if_interrupted([&] { return ::unlink(path.c_str()); });
}

FileOperations& FileOperations::real() {
  static FileOperations operations;
  return operations;
}

}  // namespace overlord::storage
