#include "overlord/media/video/video_chain.h"

#include <utility>

namespace overlord::media {
namespace {

// One decoded frame, resized, cut and upright.
const Image& draw(const YuvFrame& frame, const FrameLayout& layout, VideoScratch& scratch) {
  if (layout.orientation == 1) {
    yuv_to_rgb(frame, layout.resized, layout.kept, layout.filter, scratch.yuv, &scratch.frame);
    return scratch.frame;
  }
  ImageSize resized = layout.resized;
  if (orientation_of(layout.orientation).swaps) std::swap(resized.width, resized.height);
  yuv_to_rgb(frame, resized, stored_box(layout.kept, resized, layout.orientation), layout.filter,
             scratch.yuv, &scratch.stored);
  orient(scratch.stored.view(), layout.orientation, &scratch.frame);
  return scratch.frame;
}

}  // namespace

void PreparedVideoChain::deliver(const ImageView& frame, const VideoGeometry& geometry,
                                 int64_t slot, uint8_t* out) const {
  const auto* const rule = find<PatchifyStep>();
  int64_t first = slot * geometry.width * geometry.height * 3;
  std::optional<int32_t> place;  // of the frame in its group
  if (rule != nullptr) {
    first = slot / rule->temporal * geometry.grid_h * geometry.grid_w * geometry.row_values;
    if (rule->temporal > 1) place = static_cast<int32_t>(slot % rule->temporal);
  }
  write_pixels(frame, {geometry.floats ? &table_ : nullptr, rule, geometry.planes}, place,
               out + first * (geometry.floats ? 4 : 1));
}

Status PreparedVideoChain::run_track(std::string_view bytes, const VideoTrack& track,
                                     const FrameLayout& layout, VideoSpan part,
                                     VideoScratch& scratch, std::span<uint8_t> out) const {
  const std::vector<int64_t> order = shown_order(track);
  std::vector<int64_t> times;
  times.reserve(order.size());
  for (const int64_t i : order) times.push_back(track.samples[static_cast<size_t>(i)].time);
  OVERLORD_TRY(
      std::vector<int64_t> chosen,
      choose_frames(track.header, times, span(track.header, part), find<SampleStep>()));
  if (const auto* const rule = find<PatchifyStep>()) {
    while (static_cast<int64_t>(chosen.size()) % rule->temporal != 0) {
      chosen.push_back(chosen.back());
    }
  }
  // A frame that is taken several times is decoded and drawn once.
  std::vector<int64_t> wanted;
  std::vector<size_t> first_slots;
  for (size_t slot = 0; slot < chosen.size(); ++slot) {
    if (slot > 0 && chosen[slot] == chosen[slot - 1]) continue;
    wanted.push_back(order[static_cast<size_t>(chosen[slot])]);
    first_slots.push_back(slot);
  }
  first_slots.push_back(chosen.size());
  const auto take = [&](size_t which, const YuvFrame& frame) {
    const ImageView drawn = draw(frame, layout, scratch).view();
    for (size_t slot = first_slots[which]; slot < first_slots[which + 1]; ++slot) {
      deliver(drawn, layout.geometry, static_cast<int64_t>(slot), out.data());
    }
    return Status();
  };
  return decode_frames(bytes, track, wanted, chain_.decode, take);
}

Status PreparedVideoChain::run(std::string_view bytes, const VideoHeader& header, uint64_t,
                               VideoScratch& scratch, std::span<uint8_t> out,
                               VideoSpan part) const {
  OVERLORD_TRY(const FrameLayout layout, lay_out(header, part));
  OVERLORD_CHECK(out.size() == layout.geometry.bytes(), "video chain: output of the wrong size");
  OVERLORD_TRY(const VideoTrack track,
               read_video_track(BlobHead::all_of(bytes), chain_.decode.limits));
  if (track.header != header) {
    return bad_data(
        "clip is another than the header it is read by: " + std::to_string(track.header.frames) +
        " frames of " + std::to_string(track.header.width) + "x" +
        std::to_string(track.header.height) + ", not " + std::to_string(header.frames) + " of " +
        std::to_string(header.width) + "x" + std::to_string(header.height));
  }
  return run_track(bytes, track, layout, part, scratch, out);
}

Result<PreparedVideoChain::Outcome> PreparedVideoChain::run(std::string_view bytes, uint64_t,
                                                            VideoScratch& scratch) const {
  OVERLORD_TRY(const VideoTrack track,
               read_video_track(BlobHead::all_of(bytes), chain_.decode.limits));
  OVERLORD_TRY(const FrameLayout layout, lay_out(track.header, {}));
  Outcome outcome{track.header, layout.geometry, std::vector<uint8_t>(layout.geometry.bytes())};
  OVERLORD_RETURN_IF_ERROR(run_track(bytes, track, layout, {}, scratch, outcome.bytes));
  return outcome;
}

}  // namespace overlord::media
