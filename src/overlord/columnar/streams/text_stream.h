// TextStream: the text of a shard from its first byte to its last, in pieces, plain or
// decompressed. Only indexing streams; it notes the points from which a block can be entered later
// (RestartPoint). expand() is the other half: from such a point to the bytes of one block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "overlord/base/status.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/runtime/seams.h"

namespace overlord::columnar {

constexpr size_t kPieceBytes = 256 << 10;  // what decompressors read at once

enum class Coding : uint8_t { kPlain, kGzip, kZstd };
Coding coding_of(std::string_view uri);  // by suffix: .gz, .zst, .zstd

// Where decompression can begin. Plain text can begin anywhere.
struct RestartPoint {
  uint64_t compressed_offset = 0;
  uint64_t text_offset = 0;
  bool inside_member = false;  // gzip: in the middle of a member, needs `bits` and `window`
  uint8_t bits = 0;            // of the byte before compressed_offset that belong to what follows
  std::string window;          // the text before, up to 32 KiB

  // First compressed byte to read: the byte that holds the bits, if any.
  uint64_t first_byte() const { return compressed_offset - (bits > 0 ? 1 : 0); }
};

class TextStream {
 public:
  virtual ~TextStream() = default;

  // The next piece, valid until the next call; empty at the end.
  virtual Result<std::string_view> next() = 0;

  // Of the piece next() gave last: where its text begins, the last point at or before that, and how
  // much of the file is enough to make it again.
  uint64_t text_offset() const { return text_offset_; }
  const std::shared_ptr<const RestartPoint>& restart() const { return restart_; }
  uint64_t compressed_end() const { return compressed_end_; }
  uint64_t scanned() const { return scanned_; }  // hash of the file so far

 protected:
  explicit TextStream(const ShardJob& job) : job_(job) {}

  // The next stretch of the file, empty at its end.
  Result<std::string_view> next_input();
  uint64_t input_end() const { return input_end_; }  // offset behind what next_input() gave
  // A decompressor may not give more than `max_expansion` times what it got.
  Status check_expansion(uint64_t text_bytes, uint64_t compressed_bytes) const;

  const ShardJob& job_;
  uint64_t text_offset_ = 0;
  std::shared_ptr<const RestartPoint> restart_ = std::make_shared<RestartPoint>();
  uint64_t compressed_end_ = 0;

 private:
  runtime::Bytes input_;
  uint64_t input_end_ = 0;
  uint64_t scanned_ = 0;
};

std::unique_ptr<TextStream> open_text_stream(const ShardJob& job);
std::unique_ptr<TextStream> open_gzip_stream(const ShardJob& job);
std::unique_ptr<TextStream> open_zstd_stream(const ShardJob& job);

// Decompresses `compressed` (which begins at restart.first_byte()), drops `skip` bytes of text and
// fills out[0, size_bytes). Needs no more memory than that, whatever the bytes say.
Status expand(Coding coding, const RestartPoint& restart, std::string_view compressed,
              uint64_t skip, char* out, size_t size_bytes);
Status expand_gzip(const RestartPoint& restart, std::string_view compressed, uint64_t skip,
                   char* out, size_t size_bytes);
Status expand_zstd(std::string_view compressed, uint64_t skip, char* out, size_t size_bytes);

// All of a small gzip file; kBadData where it is broken or has more than `most_bytes`.
Result<std::string> unpack_gzip(std::string_view packed, uint64_t most_bytes);

// Windows in the index are deflated; unpack refuses more than 32 KiB.
std::string pack_window(std::string_view window);
Result<std::string> unpack_window(std::string_view packed);

}  // namespace overlord::columnar
