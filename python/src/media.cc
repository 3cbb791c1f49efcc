// Binds room media. Pictures cross the border as bytes and NumPy arrays.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "fields_dict.h"
#include "media_chain.h"
#include "overlord/media/codecs.h"
#include "overlord/media/image/image_chain.h"
#include "overlord/media/mrope.h"
#include "owned_array.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using media::ImageGeometry;

nb::dict as_dict(const ImageGeometry& geometry) {
  nb::dict out;
  out["width"] = geometry.width;
  out["height"] = geometry.height;
  out["channels"] = geometry.channels;
  out["tiles"] = geometry.tiles;
  out["tile_grid"] = nb::make_tuple(geometry.tile_columns, geometry.tile_rows);
  out["grid_thw"] = nb::make_tuple(geometry.grid_t, geometry.grid_h, geometry.grid_w);
  out["patches"] = geometry.patches;
  out["tokens"] = geometry.tokens;
  out["row_values"] = geometry.row_values;
  out["dtype"] = geometry.floats ? "float32" : "uint8";
  return out;
}

std::vector<size_t> shape_of(const ImageGeometry& geometry) {
  if (geometry.patches > 0) {
    return {static_cast<size_t>(geometry.patches), static_cast<size_t>(geometry.row_values)};
  }
  std::vector<size_t> shape;
  if (geometry.tiles > 1) shape.push_back(static_cast<size_t>(geometry.tiles));
  const auto channels = static_cast<size_t>(geometry.channels);
  if (geometry.planes) shape.push_back(channels);
  shape.push_back(static_cast<size_t>(geometry.height));
  shape.push_back(static_cast<size_t>(geometry.width));
  if (!geometry.planes) shape.push_back(channels);
  return shape;
}

struct Pictures {
  using Prepared = media::PreparedImageChain;
  using Scratch = media::ChainScratch;
  static auto parse(std::string_view text) { return media::parse_chain(text); }
  static auto probe(std::string_view bytes) { return media::probe_image(bytes); }
  static nb::dict dict_of(const media::ImageHeader& header) { return python::dict_of(header); }
  static nb::dict dict_of(const ImageGeometry& geometry) { return as_dict(geometry); }
  static nb::object array_of(const ImageGeometry& geometry, std::vector<uint8_t> bytes) {
    const std::vector<size_t> shape = shape_of(geometry);
    return geometry.floats ? owned_array<float>(std::move(bytes), shape)
                           : owned_array<uint8_t>(std::move(bytes), shape);
  }
};

nb::list list_codecs() {
  nb::list out;
  for (const media::Codec& codec : media::codecs()) {
    nb::dict row;
    row["name"] = codec.name;
    row["made_by"] = codec.made_by;
    row["package"] = codec.package;
    row["version"] = codec.version;
    row["in_build"] = codec.in_build;
    row["present"] = codec.present;
    row["fingerprint"] = codec.fingerprint.hex();
    out.append(row);
  }
  return out;
}

nb::object mrope(int64_t tokens, const std::vector<std::tuple<int64_t, int, int, int>>& spans) {
  std::vector<media::MropeSpan> list;
  for (const auto& [start, t, h, w] : spans) list.push_back({start, t, h, w, 1});
  const auto count = static_cast<size_t>(tokens);
  std::vector<int32_t> places(3 * count);
  const std::span<int32_t> all(places);
  unwrap(media::mrope_positions(list, all.subspan(0, count), all.subspan(count, count),
                                all.subspan(2 * count, count)));
  return owned_array<int32_t>(std::move(places), {3, count});
}

}  // namespace

void bind_media(nb::module_& m) {
  m.def("media_codecs", &list_codecs,
        "Codecs of this build: name, made_by, package, version, present, fingerprint.");
  bind_chain<Pictures>(
      m, "image", "ImageChain",
      "8-bit RGB as stored, height x width x 3. Options as in a chain: \"alpha=drop\".");
  m.def("mrope_positions", &mrope, nb::arg("tokens"), nb::arg("spans"),
        "3 x tokens positions; spans are (start, t, h, w) in tokens.");
}

}  // namespace overlord::python
