// ItemSlab: memory in which one seat of a media lane hands items to whoever calls the function, and
// finds what was made of them. A memfd: another process opens it by its name under /proc, a thread
// of Python maps it for itself, so that a call that was given up can write into nothing that is
// used again. Owned by one MediaSeat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "overlord/base/status.h"
#include "overlord/runtime/descriptor.h"

namespace overlord::workers {

class ItemSlab {
 public:
  // kResource when the system has no such memory.
  static Result<std::unique_ptr<ItemSlab>> make(uint64_t size_bytes);
  ~ItemSlab();
  ItemSlab(const ItemSlab&) = delete;
  ItemSlab& operator=(const ItemSlab&) = delete;

  uint8_t* data() const { return data_; }
  uint64_t size_bytes() const { return size_bytes_; }
  const std::string& path() const { return path_; }
  // A path may come to mean another file once this one is closed: who opens it compares.
  uint64_t inode() const { return inode_; }

 private:
  ItemSlab(runtime::Descriptor file, uint8_t* data, uint64_t size_bytes, uint64_t inode);

  runtime::Descriptor file_;
  uint8_t* data_;
  uint64_t size_bytes_;
  uint64_t inode_;
  std::string path_;
};

}  // namespace overlord::workers
