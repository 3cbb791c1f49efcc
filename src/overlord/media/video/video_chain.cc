#include "overlord/media/video/video_chain.h"

#include <utility>

#include "overlord/media/image/patchify_frames.h"

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
  const auto* const step = find<PatchifyStep>();
  if (step == nullptr) {
    const int64_t values = int64_t{geometry.width} * geometry.height * 3;
    if (geometry.floats) {
      normalise_pixels(frame, table_, geometry.planes,
                       reinterpret_cast<float*>(out) + slot * values);
    } else {
      copy_pixels(frame, geometry.planes, out + slot * values);
    }
    return;
  }
  const Patchify& rule = step->rule;
  const int64_t group =
      slot / rule.temporal * geometry.grid_h * geometry.grid_w * geometry.row_values;
  const auto place = static_cast<int32_t>(slot % rule.temporal);
  auto* const floats = reinterpret_cast<float*>(out) + (geometry.floats ? group : 0);
  if (rule.temporal > 1 && geometry.floats) {
    patchify_frame(frame, rule, place, table_, floats);
  } else if (rule.temporal > 1) {
    patchify_frame(frame, rule, place, out + group);
  } else if (geometry.floats) {
    patchify(frame, rule, table_, floats);
  } else {
    patchify(frame, rule, out + group);
  }
}

Status PreparedVideoChain::run_track(std::string_view bytes, const VideoTrack& track,
                                     const FrameLayout& layout, VideoScratch& scratch,
                                     std::span<uint8_t> out) const {
  const std::vector<int64_t> order = shown_order(track);
  std::vector<int64_t> times;
  times.reserve(order.size());
  for (const int64_t i : order) times.push_back(track.samples[static_cast<size_t>(i)].time);
  OVERLORD_TRY(std::vector<int64_t> chosen, choose_frames(track.header, times, span(), choice()));
  if (const auto* const step = find<PatchifyStep>()) {
    while (static_cast<int64_t>(chosen.size()) % step->rule.temporal != 0) {
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
                               VideoScratch& scratch, std::span<uint8_t> out) const {
  OVERLORD_TRY(const FrameLayout layout, lay_out(header));
  OVERLORD_CHECK(out.size() == layout.geometry.bytes(), "video chain: output of the wrong size");
  OVERLORD_TRY(const VideoTrack track,
               read_video_track(VideoParts::whole(bytes), chain_.decode.limits));
  if (track.header != header) {
    return bad_data(
        "clip is another than the header it is read by: " + std::to_string(track.header.frames) +
        " frames of " + std::to_string(track.header.width) + "x" +
        std::to_string(track.header.height) + ", not " + std::to_string(header.frames) + " of " +
        std::to_string(header.width) + "x" + std::to_string(header.height));
  }
  return run_track(bytes, track, layout, scratch, out);
}

Result<PreparedVideoChain::Outcome> PreparedVideoChain::run(std::string_view bytes, uint64_t,
                                                            VideoScratch& scratch) const {
  OVERLORD_TRY(const VideoTrack track,
               read_video_track(VideoParts::whole(bytes), chain_.decode.limits));
  OVERLORD_TRY(const FrameLayout layout, lay_out(track.header));
  Outcome outcome{track.header, layout.geometry, std::vector<uint8_t>(layout.geometry.bytes())};
  OVERLORD_RETURN_IF_ERROR(run_track(bytes, track, layout, scratch, outcome.bytes));
  return outcome;
}

}  // namespace overlord::media
