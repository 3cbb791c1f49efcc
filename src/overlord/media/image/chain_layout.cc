#include "overlord/media/image/chain_layout.h"

#include <string>
#include <utility>
#include <variant>

#include "overlord/base/rng.h"

namespace overlord::media {
namespace {

ImageBox all_of(ImageSize size) { return {0, 0, size.width, size.height}; }

class Layer {
 public:
  Layer(const ImageChain& chain, const ImageHeader& header, uint64_t key)
      : chain_(chain), header_(header), key_(key) {}

  Result<ChainLayout> lay() {
    size_ = {header_.width, header_.height};
    if (!chain_.steps.empty() && std::holds_alternative<OrientStep>(chain_.steps.front())) {
      out_.upright = true;
      size_ = {header_.upright_width(), header_.upright_height()};
    }
    open_stage();
    for (size_t i = 0; i < chain_.steps.size(); ++i) {
      step_key_ = random_u64(key_, i, kStepKeys);
      if (const Status status =
              std::visit([&](const auto& step) { return take(step); }, chain_.steps[i]);
          !status.ok()) {
        return status.with_context("image chain, step " + std::to_string(i + 1));
      }
    }
    return finish();
  }

 private:
  static constexpr uint64_t kStepKeys = 0x696d616765;  // keeps these draws apart from a step's own

  PixelStage& stage() { return out_.stages.back(); }
  void open_stage() {
    out_.stages.push_back({all_of(size_), size_, all_of(size_), ResizeFilter::kBicubic, false});
    resized_ = false;
  }

  Status resize_to(ImageSize wanted, ResizeFilter filter) {
    if (wanted.width < 1 || wanted.height < 1 || wanted.width > kLargestSide ||
        wanted.height > kLargestSide) {
      return bad_data("picture of " + size_text(size_) + " would become " + size_text(wanted) +
                      "; sides must be 1 to " + std::to_string(kLargestSide));
    }
    if (resized_ || stage().flip) open_stage();
    stage().resized = wanted;
    stage().kept = all_of(wanted);
    stage().filter = filter;
    resized_ = true;
    size_ = wanted;
    return {};
  }

  // Before a resize a crop chooses what is resized, after it what is kept of the result.
  void keep(const ImageBox& box) {
    if (stage().flip) open_stage();
    ImageBox& target = resized_ ? stage().kept : stage().box;
    target = {target.left + box.left, target.top + box.top, box.width, box.height};
    size_ = {box.width, box.height};
    if (resized_) return;
    stage().resized = size_;
    stage().kept = all_of(size_);
  }

  Status check_crop(ImageSize wanted) const {
    if (wanted.width <= size_.width && wanted.height <= size_.height) return {};
    return bad_data("picture of " + size_text(size_) + " is too small for a crop of " +
                    size_text(wanted));
  }

  Status take(const OrientStep&) { return {}; }
  Status take(const ResizeStep& step) { return resize_to(step.size, step.filter); }
  Status take(const ResizeShortStep& step) {
    return resize_to(short_side_size(size_, step.side), step.filter);
  }
  Status take(const SmartResizeStep& step) {
    const Result<ImageSize> wanted = smart_resize(size_, step.rule);
    return wanted.ok() ? resize_to(*wanted, step.filter) : wanted.status();
  }
  Status take(const AspectBucketStep& step) {
    const ImageSize bucket = step.buckets[nearest_bucket(size_, step.buckets)];
    OVERLORD_RETURN_IF_ERROR(resize_to(covering_size(size_, bucket), step.filter));
    keep(centre_box(size_, bucket));
    return {};
  }
  Status take(const CentreCropStep& step) {
    OVERLORD_RETURN_IF_ERROR(check_crop(step.size));
    keep(centre_box(size_, step.size));
    return {};
  }
  Status take(const RandomCropStep& step) {
    OVERLORD_RETURN_IF_ERROR(check_crop(step.size));
    keep(random_box(size_, step.size, step_key_));
    return {};
  }
  Status take(const RandomResizedCropStep& step) {
    keep(random_area_box(size_, step.area, step_key_));
    return resize_to(step.size, step.filter);
  }
  Status take(const RandomFlipStep& step) {
    if (static_cast<int64_t>(uniform_below(step_key_, 0, 0, 1000)) < step.chance) {
      stage().flip = !stage().flip;
    }
    return {};
  }
  Status take(const TileStep& step) {
    const ImageSize grid = tile_grid(size_, step.size, step.most);
    // Both the grid and the whole are made of what came before.
    if (resized_ || stage().flip) open_stage();
    PixelStage whole = stage();
    OVERLORD_RETURN_IF_ERROR(
        resize_to({grid.width * step.size, grid.height * step.size}, step.filter));
    ImageGeometry& geometry = out_.geometry;
    geometry.tile_columns = grid.width;
    geometry.tile_rows = grid.height;
    geometry.tiles = grid.width * grid.height;
    if (step.thumbnail && geometry.tiles > 1) {
      whole.resized = {step.size, step.size};
      whole.kept = all_of(whole.resized);
      whole.filter = step.filter;
      out_.thumbnail = whole;
      ++geometry.tiles;
    }
    return {};
  }
  Status take(const GreyStep&) {
    out_.grey = true;
    return {};
  }
  Status take(const PlanesStep&) {
    out_.geometry.planes = true;
    return {};
  }
  Status take(const NormaliseStep& rule) {
    out_.normalise = &rule;
    return {};
  }
  Status take(const PatchifyStep& rule) {
    out_.patchify = &rule;
    return {};
  }

  Result<ChainLayout> finish() {
    ImageGeometry& geometry = out_.geometry;
    geometry.width = size_.width / geometry.tile_columns;
    geometry.height = size_.height / geometry.tile_rows;
    geometry.channels = out_.grey ? 1 : 3;
    geometry.floats = out_.normalise != nullptr;
    if (out_.patchify != nullptr) {
      const Patchify& rule = *out_.patchify;
      OVERLORD_RETURN_IF_ERROR(check_patches({geometry.width, geometry.height}, rule));
      geometry.grid_t = 1;
      geometry.grid_h = geometry.height / rule.patch;
      geometry.grid_w = geometry.width / rule.patch;
      const int64_t each = int64_t{geometry.grid_h} * geometry.grid_w;
      geometry.patches = each * geometry.tiles;
      geometry.tokens = geometry.patches / (int64_t{rule.merge} * rule.merge);
      geometry.row_values = rule.row_values(geometry.channels);
    }
    return std::move(out_);
  }

  const ImageChain& chain_;
  const ImageHeader& header_;
  const uint64_t key_;
  uint64_t step_key_ = 0;
  ImageSize size_;
  bool resized_ = false;  // the open stage has a resize
  ChainLayout out_;
};

}  // namespace

Result<ChainLayout> lay_out_chain(const ImageChain& chain, const ImageHeader& header,
                                  uint64_t key) {
  if (header.width < 1 || header.height < 1) {
    return bad_data("picture without a size: " + size_text({header.width, header.height}));
  }
  return Layer(chain, header, key).lay();
}

}  // namespace overlord::media
