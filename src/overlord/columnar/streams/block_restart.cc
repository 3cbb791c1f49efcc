#include "overlord/columnar/streams/block_restart.h"

namespace overlord::columnar {
namespace {

constexpr uint64_t kSharedPointBytes = 512 << 10;

}  // namespace

void RestartNotes::add(const std::shared_ptr<const RestartPoint>& point, uint64_t begin,
                       uint64_t compressed_end, ByteWriter* block_extras) {
  const bool shared = kept_ != nullptr && coding_ == Coding::kGzip &&
                      begin - kept_->text_offset < kSharedPointBytes;
  if (!shared && kept_ != point) {
    kept_ = point;
    const std::string window = pack_window(kept_->window);
    window_offset_ = windows_.size();
    window_bytes_ = kept_->inside_member ? window.size() : 0;
    windows_.raw(window.data(), window_bytes_);
  }
  block_extras->varint(kept_->compressed_offset);
  block_extras->varint(begin - kept_->text_offset);
  block_extras->varint(compressed_end - kept_->first_byte());
  block_extras->u8(kept_->bits);
  block_extras->varint(window_offset_);
  block_extras->varint(window_bytes_);
}

bool read_restart(ByteReader* block_extra, BlockRestart* out) {
  out->point.compressed_offset = block_extra->varint();
  out->skip = block_extra->varint();
  out->compressed_bytes = block_extra->varint();
  out->point.bits = block_extra->u8();
  out->window_offset = block_extra->varint();
  out->window_bytes = block_extra->varint();
  out->point.inside_member = out->window_bytes > 0;
  return !block_extra->failed() && out->point.bits <= 7 &&
         (out->point.bits == 0 || out->point.compressed_offset > 0);
}

Status load_window(std::string_view shard_extra, BlockRestart* restart) {
  if (!restart->point.inside_member) return {};
  if (restart->window_offset > shard_extra.size() ||
      restart->window_bytes > shard_extra.size() - restart->window_offset) {
    return bad_data("index is damaged (restart point); run `overlord index`");
  }
  OVERLORD_TRY(restart->point.window,
               unpack_window(shard_extra.substr(restart->window_offset, restart->window_bytes)));
  return {};
}

}  // namespace overlord::columnar
