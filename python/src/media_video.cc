// Binds the clips of room media into overlord._core. Clips cross the border as bytes and NumPy
// arrays.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "media_chain.h"
#include "overlord/base/enum_names.h"
#include "overlord/media/video/video_chain.h"
#include "owned_array.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using media::VideoGeometry;
using media::VideoHeader;

nb::dict as_dict(const VideoHeader& header) {
  const VideoHeader::Rate rate = header.rate();
  nb::dict out;
  out["format"] = enum_name(header.format);
  out["coding"] = enum_name(header.coding);
  out["width"] = header.width;
  out["height"] = header.height;
  out["rotation"] = header.rotation;
  out["frames"] = header.frames;
  out["fps"] = nb::make_tuple(rate.num, rate.den);
  out["milliseconds"] = header.milliseconds();
  out["ticks"] = header.ticks;
  out["tick"] = nb::make_tuple(header.tick_num, header.tick_den);
  out["exact"] = header.exact();
  return out;
}

nb::dict as_dict(const VideoGeometry& geometry) {
  nb::dict out;
  out["frames"] = geometry.frames;
  out["width"] = geometry.width;
  out["height"] = geometry.height;
  out["grid_thw"] = nb::make_tuple(geometry.grid_t, geometry.grid_h, geometry.grid_w);
  out["patches"] = geometry.patches;
  out["tokens"] = geometry.tokens;
  out["row_values"] = geometry.row_values;
  out["dtype"] = geometry.floats ? "float32" : "uint8";
  return out;
}

std::vector<size_t> shape_of(const VideoGeometry& geometry) {
  if (geometry.patches > 0) {
    return {static_cast<size_t>(geometry.patches), static_cast<size_t>(geometry.row_values)};
  }
  const auto frames = static_cast<size_t>(geometry.frames);
  const auto height = static_cast<size_t>(geometry.height);
  const auto width = static_cast<size_t>(geometry.width);
  if (geometry.planes) return {frames, 3, height, width};
  return {frames, height, width, 3};
}

struct Clips {
  using Prepared = media::PreparedVideoChain;
  using Scratch = media::VideoScratch;
  static auto parse(std::string_view text) { return media::parse_video_chain(text); }
  static auto probe(std::string_view bytes) { return media::probe_video(bytes); }
  static nb::dict dict_of(const auto& told) { return as_dict(told); }
  static nb::object array_of(const VideoGeometry& geometry, std::vector<uint8_t> bytes) {
    const std::vector<size_t> shape = shape_of(geometry);
    return geometry.floats ? owned_array<float>(std::move(bytes), shape)
                           : owned_array<uint8_t>(std::move(bytes), shape);
  }
};

}  // namespace

void bind_media_video(nb::module_& m) {
  bind_chain<Clips>(m, "video", "VideoChain",
                    "Every frame, 8-bit RGB as stored, frames x height x width x 3. Options as in "
                    "a chain: \"threads=2\".");
}

}  // namespace overlord::python
