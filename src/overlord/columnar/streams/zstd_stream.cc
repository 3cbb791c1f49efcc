// zstd: frames are the only places where decompression can begin. Files of many frames (pzstd,
// `zstd` per part, the seekable format) are read well; one big frame is entered at its start for
// every block, and what is decompressed in vain is counted (RowBlock::skipped_bytes).
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "overlord/columnar/streams/text_stream.h"

namespace overlord::columnar {
namespace {

constexpr int kWindowLogMax = 27;  // 128 MiB: what the zstd tool itself accepts by default

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
using Context = std::unique_ptr<ZSTD_DCtx, FreeContext>;

Context make_context() {
  Context context(ZSTD_createDCtx());
  if (context != nullptr) {
    ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kWindowLogMax);
  }
  return context;
}

class ZstdStream final : public TextStream {
 public:
  explicit ZstdStream(const ShardJob& job)
      : TextStream(job), context_(make_context()), piece_(kPieceBytes) {}

  Result<std::string_view> next() override {
    if (context_ == nullptr) return Status(Code::kResource, "no memory for zstd");
    text_offset_ += produced_;
    produced_ = 0;
    while (produced_ < piece_.size()) {
      if (input_.pos == input_.size) {
        OVERLORD_TRY(const std::string_view more, next_input());
        if (more.empty() && at_frame_start_) break;
        if (more.empty() && !pending_output_) {
          return job_.error("zstd file is cut short at offset " + std::to_string(position()));
        }
        if (!more.empty()) input_ = {more.data(), more.size(), 0};
      }
      if (at_frame_start_) {
        if (produced_ > 0) break;  // points lie between pieces
        begin_frame();
      }
      OVERLORD_RETURN_IF_ERROR(decompress_some());
    }
    compressed_end_ = position();
    OVERLORD_RETURN_IF_ERROR(check_expansion(text_offset_ + produced_, compressed_end_));
    return std::string_view(piece_.data(), produced_);
  }

 private:
  uint64_t position() const { return input_end() - (input_.size - input_.pos); }

  void begin_frame() {
    auto point = std::make_shared<RestartPoint>();
    point->compressed_offset = position();
    point->text_offset = text_offset_;
    restart_ = std::move(point);
    at_frame_start_ = false;
  }

  Status decompress_some() {
    ZSTD_outBuffer output{piece_.data(), piece_.size(), produced_};
    const size_t result = ZSTD_decompressStream(context_.get(), &output, &input_);
    if (ZSTD_isError(result)) {
      return job_.error("zstd data is broken near offset " + std::to_string(position()) + ": " +
                        ZSTD_getErrorName(result));
    }
    produced_ = output.pos;
    at_frame_start_ = result == 0;
    pending_output_ = output.pos == output.size;
    const uint64_t most = job_.source->limits.max_block_bytes;
    if (text_offset_ + produced_ - restart_->text_offset > most) {
      return job_.error(
          "has one zstd frame of more than " + std::to_string(most) +
          " bytes of text, which cannot be entered in the middle; write it in frames: "
          "zstd -dc IN | split -C 1M --filter='zstd -c' - > OUT" +
          (job_.source->format == model::Format::kJsonl ? "" : " (with -b in place of -C)"));
    }
    return {};
  }

  Context context_;
  std::vector<char> piece_;
  size_t produced_ = 0;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  bool at_frame_start_ = true;
  bool pending_output_ = false;  // the decoder may hold text that did not fit
};

}  // namespace

std::unique_ptr<TextStream> open_zstd_stream(const ShardJob& job) {
  return std::make_unique<ZstdStream>(job);
}

Status expand_zstd(std::string_view compressed, uint64_t skip, char* out, size_t size_bytes) {
  const Context context = make_context();
  if (context == nullptr) return {Code::kResource, "no memory for zstd"};
  std::vector<char> dropped(skip > 0 ? kPieceBytes : 0);
  ZSTD_inBuffer input{compressed.data(), compressed.size(), 0};
  size_t done = 0;
  while (done < size_bytes) {
    ZSTD_outBuffer output{out + done, size_bytes - done, 0};
    if (skip > 0) output = {dropped.data(), std::min<uint64_t>(skip, dropped.size()), 0};
    const size_t before = input.pos;
    const size_t result = ZSTD_decompressStream(context.get(), &output, &input);
    if (ZSTD_isError(result)) {
      return bad_data(std::string("zstd data is broken: ") + ZSTD_getErrorName(result));
    }
    if (output.pos == 0 && input.pos == before) {
      return bad_data("compressed data ends before the block does");
    }
    skip > 0 ? skip -= output.pos : done += output.pos;
  }
  return {};
}

}  // namespace overlord::columnar
