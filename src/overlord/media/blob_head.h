// What of a blob is there while it is indexed: its first bytes, and more where its kind asked for
// them. Indexing reads no more of a file than it takes to know what decoding it will give; who
// decodes has all of it.
#pragma once

#include <cstdint>
#include <string_view>

namespace overlord::media {

// Further bytes that have to be read before a blob can be probed; none: nothing. From 0 on they are
// a longer head.
struct BlobNeed {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

struct BlobHead {
  std::string_view head;  // its first bytes, or all of it
  uint64_t size_bytes = 0;
  uint64_t tail_offset = 0;
  std::string_view tail = {};  // bytes from there on

  static BlobHead all_of(std::string_view bytes) { return {bytes, bytes.size()}; }
  bool whole() const { return head.size() >= size_bytes; }
  BlobNeed rest() const { return {head.size(), size_bytes - head.size()}; }  // behind the head

  // So many bytes from `offset` on, where they are there; else none.
  std::string_view at(uint64_t offset, uint64_t count) const {
    if (holds_from(0, head, offset, count)) return head.substr(offset, count);
    if (!holds_from(tail_offset, tail, offset, count)) return {};
    return tail.substr(offset - tail_offset, count);
  }

 private:
  static bool holds_from(uint64_t begin, std::string_view bytes, uint64_t offset, uint64_t count) {
    return offset >= begin && offset - begin <= bytes.size() &&
           count <= bytes.size() - (offset - begin);
  }
};

}  // namespace overlord::media
