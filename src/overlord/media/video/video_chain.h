// A declared list of steps from an encoded clip to a stack of frames or to patches over time. The
// chain is a value with one text form, which configs, job specs and digests use; prepared, it is a
// pure function of (bytes, key). What comes out has a geometry that the header alone tells: plan by
// it, allocate by it, and the decoder keeps to it or answers with a Status.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/media/image/image_chain.h"
#include "overlord/media/video/video_decode.h"
#include "overlord/media/video/video_frames.h"
#include "overlord/media/video/video_header.h"
#include "overlord/media/video/yuv.h"

namespace overlord::media {

// --- Steps -------------------------------------------------------------------------------------
// Those of pictures that are here do to every frame what they do to a picture; orient turns by the
// container's rotation.
using ClipStep = VideoSpan;  // needs `sample` behind it
using SampleStep = FrameChoice;
// Qwen2-VL's budget of a clip: a frame may have the pixels of `total_pixels` shared out over pairs
// of frames, at most max_pixels, and at least 1.05 times min_pixels; then its rule for pictures.
struct ClipResizeStep {
  int64_t factor = 28;
  int64_t min_pixels = 128 * 28 * 28;
  int64_t max_pixels = 768 * 28 * 28;
  int64_t total_pixels = 24576 * 28 * 28;
  ResizeFilter filter = ResizeFilter::kBicubic;
  friend bool operator==(const ClipResizeStep&, const ClipResizeStep&) = default;
  OVERLORD_FIELDS(factor, min_pixels, max_pixels, total_pixels, filter)

  SmartResize rule(int64_t frames) const;  // for each of so many frames
};

using VideoStep =
    std::variant<OrientStep, ClipStep, SampleStep, ResizeStep, ResizeShortStep, ClipResizeStep,
                 CentreCropStep, PlanesStep, NormaliseStep, PatchifyStep>;

std::string_view step_name(const VideoStep& step);  // as in the text form

struct VideoChain {
  VideoDecodeOptions decode;
  std::vector<VideoStep> steps;

  friend bool operator==(const VideoChain&, const VideoChain&) = default;
};

// The text form: steps separated by ';', each a name and key=value pairs, for example
//   "sample fps=2 max=64 multiple_of=2; smart_resize; normalise; patchify layout=qwen2vl".
// chain_text names every value; parse_video_chain(chain_text(c)) == c.
std::string chain_text(const VideoChain& chain);
Result<VideoChain> parse_video_chain(std::string_view text);

// --- Geometry ----------------------------------------------------------------------------------
struct VideoGeometry {
  int64_t frames = 0;  // that are taken; patches over time repeat the last to fill their group
  int32_t width = 0;
  int32_t height = 0;
  // In patches; all 0 without patchify.
  int64_t grid_t = 0;
  int32_t grid_h = 0;
  int32_t grid_w = 0;
  int64_t patches = 0;
  int64_t tokens = 0;      // patches after merging
  int64_t row_values = 0;  // of one patch
  bool floats = false;     // float32, else uint8
  bool planes = false;     // frames are one plane per channel

  friend bool operator==(const VideoGeometry&, const VideoGeometry&) = default;
  int64_t values() const {
    return patches > 0 ? patches * row_values : frames * width * height * 3;
  }
  size_t bytes() const { return static_cast<size_t>(values()) * (floats ? 4 : 1); }
};

// --- The prepared chain ------------------------------------------------------------------------
// Memory that a chain keeps between clips. One per thread.
struct VideoScratch {
  YuvScratch yuv;
  Image stored;  // resized, not yet upright
  Image frame;
};

// What becomes of a frame: resized, then cut, both in upright coordinates.
struct FrameLayout {
  ImageSize resized;
  ImageBox kept;
  ResizeFilter filter = ResizeFilter::kBicubic;
  int32_t orientation = 1;  // by the numbers of EXIF; how the stored frame is to be turned
  VideoGeometry geometry;
};

class PreparedVideoChain : public PreparedSteps<VideoChain, VideoHeader, VideoGeometry> {
 public:
  // Refuses steps that cannot follow each other or have senseless values.
  static Result<PreparedVideoChain> prepare(VideoChain chain);

  // Geometry of the outcome; equal to what run() delivers. `part` of the clip takes the place of a
  // `clip` step; it ends with the clip where that ends sooner.
  Result<VideoGeometry> planned_size(const VideoHeader& header, VideoSpan part = {}) const;

  // Decodes and transforms into `out`, which must be planned_size(header, part).bytes() long.
  // `header` is what probe_video says of `bytes`; no step is random yet, so `key` decides nothing.
  Status run(std::string_view bytes, const VideoHeader& header, uint64_t key, VideoScratch& scratch,
             std::span<uint8_t> out, VideoSpan part = {}) const;

  // Probe, plan, allocate, run.
  Result<Outcome> run(std::string_view bytes, uint64_t key, VideoScratch& scratch) const;

 private:
  VideoSpan span(const VideoHeader& header, VideoSpan part) const;
  Result<FrameLayout> lay_out(const VideoHeader& header, VideoSpan part) const;
  Status run_track(std::string_view bytes, const VideoTrack& track, const FrameLayout& layout,
                   VideoSpan part, VideoScratch& scratch, std::span<uint8_t> out) const;
  void deliver(const ImageView& frame, const VideoGeometry& geometry, int64_t slot,
               uint8_t* out) const;

  NormaliseTable table_ = {};
};

}  // namespace overlord::media
