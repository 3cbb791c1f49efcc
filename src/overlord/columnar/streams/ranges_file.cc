#include "overlord/columnar/streams/ranges_file.h"

#include <arrow/buffer.h>

#include <algorithm>
#include <cstring>

namespace overlord::columnar {
namespace {

// A view that keeps the bytes it looks at.
class HeldBuffer final : public arrow::Buffer {
 public:
  HeldBuffer(const uint8_t* data, int64_t size, std::shared_ptr<const void> holder)
      : arrow::Buffer(data, size), holder_(std::move(holder)) {}

 private:
  std::shared_ptr<const void> holder_;
};

}  // namespace

arrow::Status RangesFile::Close() {
  closed_ = true;
  return arrow::Status::OK();
}

arrow::Status RangesFile::Seek(int64_t position) {
  if (position < 0 || position > size_bytes_) return arrow::Status::IOError("seek past the end");
  position_ = position;
  return arrow::Status::OK();
}

arrow::Result<std::shared_ptr<arrow::Buffer>> RangesFile::ReadAt(int64_t position, int64_t nbytes) {
  if (position < 0 || nbytes < 0) return arrow::Status::IOError("negative position or size");
  const uint64_t begin = origin_ + static_cast<uint64_t>(position);
  const auto size = static_cast<uint64_t>(nbytes);
  for (size_t i = 0; i < ranges_.size(); ++i) {
    if (begin < ranges_[i].offset || begin - ranges_[i].offset > ranges_[i].size_bytes) continue;
    const uint64_t at = begin - ranges_[i].offset;
    if (size > ranges_[i].size_bytes - at) continue;
    return std::make_shared<HeldBuffer>(reinterpret_cast<const uint8_t*>(pieces_[i].data) + at,
                                        nbytes, pieces_[i].holder);
  }
  return arrow::Status::IOError("column reaches outside of its range: offset ", begin, ", size ",
                                nbytes);
}

arrow::Result<int64_t> RangesFile::ReadAt(int64_t position, int64_t nbytes, void* out) {
  ARROW_ASSIGN_OR_RAISE(const auto buffer, ReadAt(position, nbytes));
  if (nbytes > 0) std::memcpy(out, buffer->data(), static_cast<size_t>(nbytes));
  return nbytes;
}

arrow::Result<int64_t> RangesFile::Read(int64_t nbytes, void* out) {
  ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position_, nbytes, out));
  position_ += got;
  return got;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> RangesFile::Read(int64_t nbytes) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, nbytes));
  position_ += nbytes;
  return buffer;
}

}  // namespace overlord::columnar
