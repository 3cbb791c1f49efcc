#include "overlord/columnar/streams/text_stream.h"

#include <algorithm>

#include "overlord/base/hash.h"

namespace overlord::columnar {
namespace {

constexpr uint64_t kInputBytes = 1 << 20;
constexpr uint64_t kFreeExpansionBytes = 1 << 20;  // small files may expand as they like

class PlainStream final : public TextStream {
 public:
  explicit PlainStream(const ShardJob& job) : TextStream(job) {}

  Result<std::string_view> next() override {
    text_offset_ = compressed_end_;
    OVERLORD_TRY(const std::string_view piece, next_input());
    if (text_offset_ == 0) {
      if (piece.starts_with("\x1f\x8b")) return job_.error("is gzip; name it .jsonl.gz");
      if (piece.starts_with("\x28\xb5\x2f\xfd")) return job_.error("is zstd; name it .jsonl.zst");
    }
    compressed_end_ = input_end();
    return piece;
  }
};

}  // namespace

Coding coding_of(std::string_view uri) {
  if (uri.ends_with(".gz") || uri.ends_with(".tgz")) return Coding::kGzip;
  if (uri.ends_with(".zst") || uri.ends_with(".zstd")) return Coding::kZstd;
  return Coding::kPlain;
}

Result<std::string_view> TextStream::next_input() {
  const uint64_t size = std::min(kInputBytes, job_.file.fingerprint.size_bytes - input_end_);
  if (size == 0) return std::string_view();
  OVERLORD_TRY(input_, job_.read(job_.file, input_end_, size));
  input_end_ += size;
  scanned_ = hash64(input_.data, input_.size, scanned_);
  job_.note_scanned(size);
  return std::string_view(input_.data, input_.size);
}

Status TextStream::check_expansion(uint64_t text_bytes, uint64_t compressed_bytes) const {
  const uint64_t ratio = std::max(job_.source->limits.max_expansion, 1u);
  if (text_bytes <= kFreeExpansionBytes || text_bytes / ratio <= compressed_bytes) return {};
  return job_.error("expands to more than " + std::to_string(ratio) +
                    " times its size (decompression bomb?) near offset " +
                    std::to_string(compressed_end_) +
                    "; raise limits.max_expansion if it is meant");
}

std::unique_ptr<TextStream> open_text_stream(const ShardJob& job) {
  switch (coding_of(job.file.uri)) {
    case Coding::kGzip:
      return open_gzip_stream(job);
    case Coding::kZstd:
      return open_zstd_stream(job);
    case Coding::kPlain:
      break;
  }
  return std::make_unique<PlainStream>(job);
}

Status expand(Coding coding, const RestartPoint& restart, std::string_view compressed,
              uint64_t skip, char* out, size_t size_bytes) {
  switch (coding) {
    case Coding::kGzip:
      return expand_gzip(restart, compressed, skip, out, size_bytes);
    case Coding::kZstd:
      return expand_zstd(compressed, skip, out, size_bytes);
    case Coding::kPlain:
      break;
  }
  return internal_error("plain text needs no expansion");
}

}  // namespace overlord::columnar
