#include "overlord/media/image/image_chain.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "overlord/media/image/chain_layout.h"
#include "overlord/media/image/codecs/colour.h"

namespace overlord::media {
namespace {

// What a stage reads: planes or pixels of a picture of `size` (in its stored orientation) of which
// each sample stands for `per / num` pixels across and down.
struct Source {
  ImageSize size;
  int32_t orientation = 1;
  ImageView pixels;
  int64_t divisor = 1;
  JpegPlanes planes;  // used where count > 0
};

// One axis of `stage`, for a plane on which `num / per` samples stand for a pixel.
ResizeAxis axis_of(int32_t start, int32_t length, int32_t size, int32_t first, int32_t count,
                   int64_t num, int64_t per, int32_t samples) {
  const int64_t common = std::gcd(num, per);
  num /= common;
  per /= common;
  ResizeAxis axis;
  axis.start = start * num;
  axis.length = length * num;
  axis.per = per;
  axis.low = static_cast<int32_t>(axis.start / per);
  axis.high =
      static_cast<int32_t>(std::min<int64_t>((axis.start + axis.length + per - 1) / per, samples));
  axis.size = size;
  axis.first = first;
  axis.count = count;
  return axis;
}

// The stage in the coordinates of a source that is not yet upright.
PixelStage as_stored(const PixelStage& stage, const Source& source) {
  if (source.orientation == 1) return stage;
  PixelStage out = stage;
  out.box = stored_box(stage.box, source.size, source.orientation);
  if (orientation_of(source.orientation).swaps) std::swap(out.resized.width, out.resized.height);
  out.kept = stored_box(stage.kept, out.resized, source.orientation);
  return out;
}

void resize_planes(const Source& source, const PixelStage& stage, ChainScratch& scratch,
                   Image* to) {
  const ImageBox& kept = stage.kept;
  const auto area = static_cast<size_t>(kept.width) * static_cast<size_t>(kept.height);
  if (scratch.small_planes.size() < 3 * area) scratch.small_planes.resize(3 * area);
  uint8_t* const small = scratch.small_planes.data();
  for (int32_t c = 0; c < source.planes.count; ++c) {
    const Plane& plane = source.planes.planes[static_cast<size_t>(c)];
    const ResizeAxis across =
        axis_of(stage.box.left, stage.box.width, stage.resized.width, kept.left, kept.width,
                plane.across / source.size.width, plane.across_per, plane.width);
    const ResizeAxis down =
        axis_of(stage.box.top, stage.box.height, stage.resized.height, kept.top, kept.height,
                plane.down / source.size.height, plane.down_per, plane.height);
    resize({plane.data, plane.width, plane.height, 1, plane.stride}, across, down, stage.filter,
           scratch.resize, small + static_cast<size_t>(c) * area, kept.width);
  }
  for (int32_t y = 0; y < kept.height; ++y) {
    const uint8_t* const row = small + static_cast<size_t>(y) * static_cast<size_t>(kept.width);
    if (source.planes.count == 1) {
      grey_row_to_rgb(row, kept.width, to->row(y));
    } else {
      ycc_row_to_rgb(row, row + area, row + 2 * area, kept.width, to->row(y));
    }
  }
}

void carry_out(const Source& source, const PixelStage& upright_stage, ChainScratch& scratch,
               Image* out) {
  const PixelStage stage = as_stored(upright_stage, source);
  Image* const to = source.orientation == 1 ? out : &scratch.stored;
  to->shape(stage.kept.width, stage.kept.height, 3);
  if (source.planes.count > 0) {
    resize_planes(source, stage, scratch, to);
  } else {
    const int64_t num = 8 / source.divisor;
    resize(source.pixels,
           axis_of(stage.box.left, stage.box.width, stage.resized.width, stage.kept.left,
                   stage.kept.width, num, 8, source.pixels.width),
           axis_of(stage.box.top, stage.box.height, stage.resized.height, stage.kept.top,
                   stage.kept.height, num, 8, source.pixels.height),
           stage.filter, scratch.resize, to->row(0), to->stride());
  }
  if (source.orientation != 1) orient(to->view(), source.orientation, out);
  if (stage.flip) flip_across(out);
}

// Decodes as much as the first stage needs.
Status open_source(std::string_view bytes, const ImageHeader& header, const ChainLayout& layout,
                   const DecodeOptions& options, ChainScratch& scratch, Source* source) {
  source->size = {header.width, header.height};
  source->orientation = layout.upright ? header.orientation : 1;
  const bool shrinks = header.format == ImageFormat::kJpeg && options.jpeg == JpegMode::kScaled &&
                       layout.stages.front().resizes();
  int32_t divisor = 1;
  if (shrinks) {
    const PixelStage stage = as_stored(layout.stages.front(), *source);
    divisor = jpeg_divisor({stage.box.width, stage.box.height}, stage.resized);
    const Status status =
        decode_jpeg_planes(bytes, header, options.limits, divisor, scratch.decode, &source->planes);
    if (!status.ok() || source->planes.count > 0) return status;
  }
  source->divisor = divisor;
  const Status status =
      decode_image(bytes, header, options, divisor, scratch.decode, &scratch.decoded);
  source->pixels = scratch.decoded.view();
  return status;
}

const ImageView grey_of(const ImageView& image, Image* out) {
  out->shape(image.width, image.height, 1);
  for (int32_t y = 0; y < image.height; ++y)
    rgb_row_to_grey(image.row(y), image.width, out->row(y));
  return out->view();
}

}  // namespace

int64_t ImageGeometry::values() const {
  if (patches > 0) return patches * row_values;
  return int64_t{tiles} * width * height * channels;
}

Result<ImageGeometry> PreparedImageChain::planned_size(const ImageHeader& header) const {
  Result<ChainLayout> layout = lay_out_chain(chain_, header, 0);
  if (!layout.ok()) return layout.status();
  return layout->geometry;
}

Status PreparedImageChain::run(std::string_view bytes, const ImageHeader& header, uint64_t key,
                               ChainScratch& scratch, std::span<uint8_t> out) const {
  const Result<ChainLayout> laid = lay_out_chain(chain_, header, key);
  if (!laid.ok()) return laid.status();
  const ChainLayout& layout = *laid;
  OVERLORD_CHECK(out.size() == layout.geometry.bytes(), "image chain: output of the wrong size");

  Source source;
  OVERLORD_RETURN_IF_ERROR(open_source(bytes, header, layout, chain_.decode, scratch, &source));
  Image* image = nullptr;
  for (size_t i = 0; i < layout.stages.size(); ++i) {
    if (i + 1 == layout.stages.size() && layout.thumbnail) {
      carry_out(source, *layout.thumbnail, scratch, &scratch.thumbnail);
    }
    image = &scratch.stages[i % 2];
    carry_out(source, layout.stages[i], scratch, image);
    source = Source{{image->width, image->height}, 1, image->view(), 1, {}};
  }
  const ImageGeometry& geometry = layout.geometry;
  const size_t tile_bytes = geometry.bytes() / static_cast<size_t>(geometry.tiles);
  const PixelForm form{geometry.floats ? &table_ : nullptr, layout.patchify, geometry.planes};
  uint8_t* to = out.data();
  for (int32_t i = 0; i < geometry.tiles; ++i, to += tile_bytes) {
    const int32_t row = i / geometry.tile_columns;
    ImageView tile =
        row < geometry.tile_rows
            ? image->view().part({i % geometry.tile_columns * geometry.width, row * geometry.height,
                                  geometry.width, geometry.height})
            : scratch.thumbnail.view();
    if (layout.grey) tile = grey_of(tile, &scratch.grey);
    write_pixels(tile, form, std::nullopt, to);
  }
  return {};
}

Status PreparedImageChain::judge(std::string_view bytes, const ImageHeader& header, uint64_t key,
                                 ChainScratch& scratch) const {
  OVERLORD_TRY(const ChainLayout layout, lay_out_chain(chain_, header, key));
  Source source;
  return open_source(bytes, header, layout, chain_.decode, scratch, &source);
}

Result<PreparedImageChain::Outcome> PreparedImageChain::run(std::string_view bytes, uint64_t key,
                                                            ChainScratch& scratch) const {
  OVERLORD_TRY(const ImageHeader header, probe_image(bytes));
  // Limits before the output is allocated: a header may promise anything.
  OVERLORD_RETURN_IF_ERROR(check_limits(header, bytes.size(), chain_.decode.limits));
  OVERLORD_TRY(const ImageGeometry geometry, planned_size(header));
  Outcome outcome{header, geometry, std::vector<uint8_t>(geometry.bytes())};
  OVERLORD_RETURN_IF_ERROR(run(bytes, header, key, scratch, outcome.bytes));
  return outcome;
}

}  // namespace overlord::media
