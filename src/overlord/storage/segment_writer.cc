#include "overlord/storage/segment_writer.h"

#include <sys/stat.h>
#include <unistd.h>

namespace overlord::storage {

SegmentWriter::SegmentWriter(const std::string& folder, SegmentName name, int fd,
                             FileOperations* operations)
    : name_(name), path_(folder + "/" + name.text()), fd_(fd), operations_(operations) {}

SegmentWriter::~SegmentWriter() { ::close(fd_); }

FileError SegmentWriter::put(std::string_view frame) {
  // A disk that is full says so here, before anything is written. Some file systems cannot tell.
  const int reserved = operations_->reserve(fd_, size_bytes_, frame.size());
  if (reserved != 0 && reserved != EOPNOTSUPP && reserved != ENOSYS) {
    return {"cannot reserve space", reserved};
  }
  if (const FileError error = write(frame); error.code != 0) return cut_back(error);
  if (const int error = operations_->sync(fd_); error != 0) {
    const FileError failed{"fdatasync failed", error};
    // Network file systems tell only now that they are full. Then the whole frame is written again:
    // what was durable before it does not rest on this sync.
    return failed.full() ? cut_back(failed) : failed;
  }
  size_bytes_ += frame.size();
  return {};
}

FileError SegmentWriter::write(std::string_view frame) {
  uint64_t offset = size_bytes_;
  while (!frame.empty()) {
    size_t wrote = 0;
    const int error = operations_->write(fd_, frame, offset, &wrote);
    if (error != 0) return {"write failed", error};
    if (wrote == 0) return {"write failed", EIO};
    frame.remove_prefix(wrote);
    offset += wrote;
  }
  return {};
}

FileError SegmentWriter::cut_back(FileError cause) {
  const int error = operations_->cut(fd_, size_bytes_);
  return error == 0 ? cause : FileError{"cannot cut off half a record", error};
}

bool SegmentWriter::in_place() const {
  struct stat own;
  struct stat there;
  return ::fstat(fd_, &own) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
         own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

}  // namespace overlord::storage
