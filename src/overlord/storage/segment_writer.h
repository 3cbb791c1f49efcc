// SegmentWriter: the file that a journal writes to. A frame is durable when put() says so; where
// the disk is full the file is as if nothing had been tried.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "overlord/storage/file_operations.h"
#include "overlord/storage/journal_folder.h"

namespace overlord::storage {

class SegmentWriter {
 public:
  // Takes over `fd` of the empty file at `folder`/`name`.
  SegmentWriter(const std::string& folder, SegmentName name, int fd, FileOperations* operations);
  ~SegmentWriter();
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  // Writes behind what is there and syncs. After an error that is not full() nothing may be put.
  FileError put(std::string_view frame);
  // Whether the file still lies where it was made: neither it nor its folder was removed or moved.
  bool in_place() const;

  const SegmentName& name() const { return name_; }
  const std::string& path() const { return path_; }
  bool empty() const { return size_bytes_ == 0; }

 private:
  FileError write(std::string_view frame);
  FileError cut_back(FileError cause);

  const SegmentName name_;
  const std::string path_;
  const int fd_;
  FileOperations* const operations_;
  uint64_t size_bytes_ = 0;  // all of it durable
};

}  // namespace overlord::storage
