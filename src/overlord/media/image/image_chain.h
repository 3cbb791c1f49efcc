// A declared list of steps from encoded bytes to pixels, floats or patches. The chain is a value
// with one text form, which configs, job specs and digests use; prepared, it is a pure function of
// (bytes, key). What comes out has a geometry that the header alone tells: plan by it, allocate by
// it, and the decoder keeps to it or answers with a Status.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/media/image/image.h"
#include "overlord/media/image/image_decode.h"
#include "overlord/media/image/image_header.h"
#include "overlord/media/image/image_transforms.h"
#include "overlord/media/image/patchify.h"
#include "overlord/media/image/resize.h"
#include "overlord/media/prepared_steps.h"

namespace overlord::media {

// --- Steps -------------------------------------------------------------------------------------
struct OrientStep {  // turn upright by EXIF; first, where it is wanted
  friend bool operator==(const OrientStep&, const OrientStep&) = default;
};
struct ResizeStep {
  ImageSize size;
  ResizeFilter filter = ResizeFilter::kBicubic;
  friend bool operator==(const ResizeStep&, const ResizeStep&) = default;
  OVERLORD_FIELDS(size, filter)
};
struct ResizeShortStep {
  int32_t side = 0;
  ResizeFilter filter = ResizeFilter::kBicubic;
  friend bool operator==(const ResizeShortStep&, const ResizeShortStep&) = default;
  OVERLORD_FIELDS(side, filter)
};
struct SmartResizeStep {
  SmartResize rule;
  ResizeFilter filter = ResizeFilter::kBicubic;
  friend bool operator==(const SmartResizeStep&, const SmartResizeStep&) = default;
  OVERLORD_FIELDS(rule, filter)
};
struct AspectBucketStep {  // nearest bucket: resized to cover it, then cut to it about the centre
  std::vector<ImageSize> buckets;
  ResizeFilter filter = ResizeFilter::kBicubic;
  friend bool operator==(const AspectBucketStep&, const AspectBucketStep&) = default;
  OVERLORD_FIELDS(buckets, filter)
};
struct CentreCropStep {
  ImageSize size;
  friend bool operator==(const CentreCropStep&, const CentreCropStep&) = default;
  OVERLORD_FIELDS(size)
};
struct RandomCropStep {
  ImageSize size;
  friend bool operator==(const RandomCropStep&, const RandomCropStep&) = default;
  OVERLORD_FIELDS(size)
};
struct RandomResizedCropStep {
  ImageSize size;
  RandomArea area;
  ResizeFilter filter = ResizeFilter::kBicubic;
  friend bool operator==(const RandomResizedCropStep&, const RandomResizedCropStep&) = default;
  OVERLORD_FIELDS(size, area, filter)
};
struct RandomFlipStep {  // across; chance in thousandths
  int32_t chance = 500;
  friend bool operator==(const RandomFlipStep&, const RandomFlipStep&) = default;
  OVERLORD_FIELDS(chance)
};
struct TileStep {  // a grid of square tiles, and the whole as one more where there are several
  int32_t size = 448;
  int32_t most = 12;
  bool thumbnail = true;
  ResizeFilter filter = ResizeFilter::kBicubic;
  friend bool operator==(const TileStep&, const TileStep&) = default;
  OVERLORD_FIELDS(size, most, thumbnail, filter)
};
struct GreyStep {  // one channel; after the steps that move pixels
  friend bool operator==(const GreyStep&, const GreyStep&) = default;
};
struct PlanesStep {  // pixels leave as one plane per channel ("CHW") instead of interleaved
  friend bool operator==(const PlanesStep&, const PlanesStep&) = default;
};
using NormaliseStep = Normalise;
using PatchifyStep = Patchify;

using ImageStep =
    std::variant<OrientStep, ResizeStep, ResizeShortStep, SmartResizeStep, AspectBucketStep,
                 CentreCropStep, RandomCropStep, RandomResizedCropStep, RandomFlipStep, TileStep,
                 GreyStep, PlanesStep, NormaliseStep, PatchifyStep>;

std::string_view step_name(const ImageStep& step);  // as in the text form

struct ImageChain {
  DecodeOptions decode;
  std::vector<ImageStep> steps;

  friend bool operator==(const ImageChain&, const ImageChain&) = default;
};

// The text form: steps separated by ';', each a name and key=value pairs, for example
//   "decode jpeg=scaled; orient; resize_short side=256; centre_crop width=224 height=224".
// chain_text names every value; parse_chain(chain_text(c)) == c.
std::string chain_text(const ImageChain& chain);
Result<ImageChain> parse_chain(std::string_view text);

// --- Geometry ----------------------------------------------------------------------------------
struct ImageGeometry {
  int32_t width = 0;  // of one tile, or of the picture
  int32_t height = 0;
  int32_t channels = 3;
  int32_t tiles = 1;
  int32_t tile_columns = 1;  // the thumbnail is not in the grid
  int32_t tile_rows = 1;
  // In patches, of one tile; all 0 without patchify.
  int32_t grid_t = 0;
  int32_t grid_h = 0;
  int32_t grid_w = 0;
  int64_t patches = 0;     // over all tiles
  int64_t tokens = 0;      // patches after merging
  int64_t row_values = 0;  // of one patch
  bool floats = false;     // float32, else uint8
  bool planes = false;

  friend bool operator==(const ImageGeometry&, const ImageGeometry&) = default;
  int64_t values() const;
  size_t bytes() const { return static_cast<size_t>(values()) * (floats ? 4 : 1); }
};

// --- The prepared chain ------------------------------------------------------------------------
// Memory that a chain keeps between pictures. One per thread.
struct ChainScratch {
  DecodeScratch decode;
  ResizeScratch resize;
  std::vector<uint8_t> small_planes;
  Image decoded;
  Image stored;  // resized, not yet upright
  Image stages[2];
  Image thumbnail;
  Image grey;
};

class PreparedImageChain : public PreparedSteps<ImageChain, ImageHeader, ImageGeometry> {
 public:
  // Refuses steps that cannot follow each other or have senseless values.
  static Result<PreparedImageChain> prepare(ImageChain chain);

  // Geometry of the outcome; equal to what run() delivers for any key.
  Result<ImageGeometry> planned_size(const ImageHeader& header) const;

  // Decodes and transforms into `out`, which must be planned_size(header).bytes() long. `header` is
  // what probe_image says of `bytes`; `key` (of the sample) decides all chance.
  Status run(std::string_view bytes, const ImageHeader& header, uint64_t key, ChainScratch& scratch,
             std::span<uint8_t> out) const;

  // What run() would answer: only decoding can go wrong.
  Status judge(std::string_view bytes, const ImageHeader& header, uint64_t key,
               ChainScratch& scratch) const;

  // Probe, plan, allocate, run.
  Result<Outcome> run(std::string_view bytes, uint64_t key, ChainScratch& scratch) const;

 private:
  NormaliseTable table_ = {};
};

}  // namespace overlord::media
