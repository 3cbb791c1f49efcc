// MP4 and QuickTime: boxes of a size, a four-letter type and a body, as views into foreign bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "overlord/base/status.h"
#include "overlord/media/byte_view.h"

namespace overlord::media {

struct Mp4Box {
  std::string_view type;
  std::string_view body;
};

inline uint64_t big_u64(std::string_view bytes, size_t offset) {
  return uint64_t{big_u32(bytes, offset)} << 32 | big_u32(bytes, offset + 4);
}

// The boxes of a body, one after the other. A box that runs out of its parent is a Status.
class Mp4Boxes {
 public:
  explicit Mp4Boxes(std::string_view body, std::string_view parent)
      : body_(body), parent_(parent) {}

  // False at the end. Less than a header at the end is padding that QuickTime writes.
  bool more() const { return holds(body_, at_, 8); }

  Result<Mp4Box> next() {
    uint64_t size = big_u32(body_, at_);
    size_t header = 8;
    if (size == 1 && holds(body_, at_, 16)) {
      size = big_u64(body_, at_ + 8);
      header = 16;
    }
    if (size < header || size > body_.size() - at_) {
      return bad_data("mp4 is cut or damaged: a box of " + std::to_string(size) +
                      " bytes inside of " + std::string(parent_) + ", which has " +
                      std::to_string(body_.size() - at_) + " left");
    }
    const Mp4Box box{body_.substr(at_ + 4, 4), body_.substr(at_ + header, size - header)};
    at_ += size;
    return box;
  }

 private:
  std::string_view body_;
  std::string_view parent_;
  size_t at_ = 0;
};

// A table behind four bytes of version and flags: a count, then rows of `row` bytes each.
struct Mp4Table {
  std::string_view rows;
  size_t count = 0;
  size_t row = 0;

  uint32_t at(size_t i, size_t column) const { return big_u32(rows, i * row + column * 4); }
};

inline Result<Mp4Table> mp4_table(const Mp4Box& box, size_t row) {
  if (!holds(box.body, 0, 8)) {
    return bad_data("mp4 is damaged: " + std::string(box.type) + " is cut");
  }
  const size_t count = big_u32(box.body, 4);
  if (count > (box.body.size() - 8) / row) {
    return bad_data("mp4 is damaged: " + std::string(box.type) + " promises " +
                    std::to_string(count) + " rows and holds " +
                    std::to_string((box.body.size() - 8) / row));
  }
  return Mp4Table{box.body.substr(8, count * row), count, row};
}

}  // namespace overlord::media
