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
#include "overlord/media/codecs.h"
#include "overlord/media/image_chain.h"
#include "overlord/media/mrope.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using media::ImageGeometry;
using media::ImageHeader;

std::string_view view_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

nb::dict dict_of(const ImageHeader& header) {
  nb::dict out;
  out["format"] = std::string(media::format_name(header.format));
  out["width"] = header.width;
  out["height"] = header.height;
  out["colour"] = std::string(media::colour_name(header.colour));
  out["channels"] = header.channels;
  out["bit_depth"] = header.bit_depth;
  out["alpha"] = header.alpha;
  out["orientation"] = header.orientation;
  out["frames"] = header.frames;
  out["progressive"] = header.progressive;
  out["scans"] = header.scans;
  return out;
}

nb::dict dict_of(const ImageGeometry& geometry) {
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

nb::object array_of(const ImageGeometry& geometry, std::vector<uint8_t> bytes) {
  auto* held = new std::vector<uint8_t>(std::move(bytes));
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<uint8_t>*>(p); });
  const std::vector<size_t> shape = shape_of(geometry);
  if (geometry.floats) {
    return nb::cast(nb::ndarray<nb::numpy, float>(reinterpret_cast<float*>(held->data()),
                                                  shape.size(), shape.data(), owner));
  }
  return nb::cast(nb::ndarray<nb::numpy, uint8_t>(held->data(), shape.size(), shape.data(), owner));
}

// A chain with the memory of the thread that calls it.
class ImageChain {
 public:
  explicit ImageChain(const std::string& text)
      : chain_(unwrap(media::PreparedImageChain::prepare(unwrap(media::parse_chain(text))))) {}

  std::string text() const { return media::chain_text(chain_.chain()); }

  nb::tuple run(const nb::bytes& bytes, uint64_t key) const {
    Result<media::PreparedImageChain::Outcome> outcome = media::PreparedImageChain::Outcome();
    {
      nb::gil_scoped_release free;
      thread_local media::ChainScratch scratch;
      outcome = chain_.run(view_of(bytes), key, scratch);
    }
    media::PreparedImageChain::Outcome made = unwrap(std::move(outcome));
    const nb::dict geometry = dict_of(made.geometry);
    return nb::make_tuple(array_of(made.geometry, std::move(made.bytes)), geometry);
  }

  nb::dict planned_size(const nb::bytes& bytes) const {
    const ImageHeader header = unwrap(media::probe_image(view_of(bytes)));
    return dict_of(unwrap(chain_.planned_size(header)));
  }

 private:
  media::PreparedImageChain chain_;
};

nb::list list_codecs() {
  nb::list out;
  for (const media::Codec& codec : media::codecs()) {
    nb::dict row;
    row["name"] = codec.name;
    row["library"] = codec.library;
    row["version"] = codec.version;
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
  auto* held = new std::vector<int32_t>(3 * count);
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<int32_t>*>(p); });
  const std::span<int32_t> all(*held);
  unwrap(media::mrope_positions(list, all.subspan(0, count), all.subspan(count, count),
                                all.subspan(2 * count, count)));
  const size_t shape[2] = {3, count};
  return nb::cast(nb::ndarray<nb::numpy, int32_t>(held->data(), 2, shape, owner));
}

}  // namespace

void bind_media(nb::module_& m) {
  m.def("media_codecs", &list_codecs,
        "Codecs of this build: name, library, version, present, fingerprint.");
  m.def(
      "probe_image",
      [](const nb::bytes& bytes) { return dict_of(unwrap(media::probe_image(view_of(bytes)))); },
      nb::arg("bytes"), "What a picture's headers say, without decoding it.");
  m.def(
      "decode_image",
      [](const nb::bytes& bytes, const std::string& options) {
        return nb::object(ImageChain("decode " + options).run(bytes, 0)[0]);
      },
      nb::arg("bytes"), nb::arg("options") = "",
      "8-bit RGB as stored, height x width x 3. Options as in a chain: \"alpha=drop\".");
  m.def(
      "run_image_chain",
      [](const nb::bytes& bytes, const std::string& chain, uint64_t key) {
        return ImageChain(chain).run(bytes, key);
      },
      nb::arg("bytes"), nb::arg("chain"), nb::arg("key") = 0,
      "(array, geometry) of a chain in its text form.");
  nb::class_<ImageChain>(m, "ImageChain", "A prepared chain; may be used by many threads at once.")
      .def(nb::init<const std::string&>(), nb::arg("text"))
      .def_prop_ro("text", &ImageChain::text, "The text form with every value named.")
      .def("run", &ImageChain::run, nb::arg("bytes"), nb::arg("key") = 0, "(array, geometry)")
      .def("planned_size", &ImageChain::planned_size, nb::arg("bytes"),
           "The geometry that run() will deliver, from the header alone.");
  m.def("mrope_positions", &mrope, nb::arg("tokens"), nb::arg("spans"),
        "3 x tokens positions; spans are (start, t, h, w) in tokens.");
}

}  // namespace overlord::python
