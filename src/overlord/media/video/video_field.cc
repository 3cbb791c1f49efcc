// Clips as a kind of media: size, rotation, frames and duration are what the index keeps of one.
#include <string>

#include "overlord/media/image/chain_rows.h"
#include "overlord/media/kind_field.h"
#include "overlord/media/video/video_chain.h"

namespace overlord::media {
namespace {

// Where an MP4 has its tables is the writer's choice; Matroska has its times all over the file.
Result<BlobNeed> need(const BlobHead& blob) {
  OVERLORD_TRY(const BlobNeed more, video_probe_need(blob));
  // Readers of whole clips take one piece.
  if (more.offset == blob.head.size()) return BlobNeed{0, more.offset + more.size_bytes};
  return more;
}

// Steps that pictures do not have decide nothing: no frame is resized twice.
struct FrameFollower : SizeFollower {
  using SizeFollower::operator();
  void operator()(const ClipStep&) {}
  void operator()(const SampleStep&) {}
  void operator()(const ClipResizeStep&) {}
};

struct Clips {
  using Header = VideoHeader;
  using Prepared = PreparedVideoChain;
  using Scratch = VideoScratch;
  using Part = VideoSpan;
  static constexpr std::string_view kBlob = "clip";

  static auto parse(std::string_view text) { return parse_video_chain(text); }
  static Result<FieldRows> rows_of(const VideoChain& chain) {
    FrameFollower end;
    for (const VideoStep& step : chain.steps) std::visit(end, step);
    if (end.size && end.size->width == 0) end.size.reset();  // none was named
    return end.rows(
        "video chain: frames that travel need one size; end it with patchify, or use resize or "
        "centre_crop");
  }
  static const VideoLimits& limits(const VideoChain& chain) { return chain.decode.limits; }
  static auto probe(std::string_view blob, const VideoLimits& limits) {
    return probe_video(BlobHead::all_of(blob), limits);
  }

  static Result<HeaderValues> values_of(const VideoHeader& header) {
    for (const int64_t value : {header.frames, header.ticks, header.tick_num, header.tick_den}) {
      if (value > UINT32_MAX) {
        return bad_data(
            "clip counts its time too finely for the index: " + std::to_string(header.ticks) +
            " units of " + std::to_string(header.tick_num) + "/" + std::to_string(header.tick_den) +
            " s");
      }
    }
    return HeaderValues{
        static_cast<uint32_t>(header.width),    static_cast<uint32_t>(header.height),
        static_cast<uint32_t>(header.rotation), static_cast<uint32_t>(header.frames),
        static_cast<uint32_t>(header.ticks),    static_cast<uint32_t>(header.tick_num),
        static_cast<uint32_t>(header.tick_den)};
  }
  static VideoHeader header_of(const HeaderValues& values) {
    VideoHeader header;
    header.width = static_cast<int32_t>(values[0]);
    header.height = static_cast<int32_t>(values[1]);
    header.rotation = static_cast<int32_t>(values[2]);
    header.frames = values[3];
    header.ticks = values[4];
    header.tick_num = values[5];
    header.tick_den = values[6];
    return header;
  }
  static std::string header_text(const HeaderValues& values) {
    return std::to_string(values[3]) + " frames of " + std::to_string(values[0]) + "x" +
           std::to_string(values[1]) + " pixels, rotation " + std::to_string(values[2]) + ", " +
           std::to_string(values[4]) + " units of " + std::to_string(values[5]) + "/" +
           std::to_string(values[6]) + " s";
  }
  static FieldPlan plan_of(const VideoGeometry& geometry, const FieldRows&) {
    return pixel_plan(geometry, 1, geometry.frames, geometry.grid_t);
  }
};

Result<HeaderValues> probe(const BlobHead& blob) {
  OVERLORD_TRY(const VideoHeader header, probe_video(blob, {}));
  return Clips::values_of(header);
}

}  // namespace

const KindOfMedia& video_kind() {
  static constexpr KindOfMedia kKind = {
      model::MediaKind::kVideo,       "video", "clip headers 2", 64 << 10, 7, need, probe,
      prepare_field<KindField<Clips>>};
  return kKind;
}

}  // namespace overlord::media
