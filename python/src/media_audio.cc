// Binds the sounds of room media into overlord._core. Sounds cross the border as bytes and
// NumPy arrays.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "fields_dict.h"
#include "media_chain.h"
#include "overlord/media/audio/audio_chain.h"
#include "owned_array.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using media::AudioGeometry;
using media::AudioHeader;

nb::dict as_dict(const AudioHeader& header) {
  nb::dict out = python_value(header);
  out["milliseconds"] = header.milliseconds();
  out["exact"] = header.exact();
  return out;
}

nb::dict as_dict(const AudioGeometry& geometry) {
  nb::dict out;
  out["sample_rate"] = geometry.sample_rate;
  out["channels"] = geometry.channels;
  out["chunks"] = geometry.chunks;
  out["samples"] = geometry.samples;
  out["real_samples"] = geometry.real_samples;
  out["mels"] = geometry.mels;
  out["frames"] = geometry.frames;
  out["real_frames"] = geometry.real_frames;
  out["tokens"] = geometry.tokens;
  out["dtype"] = geometry.floats ? "float32" : "int16";
  return out;
}

std::vector<size_t> shape_of(const AudioGeometry& geometry) {
  std::vector<size_t> shape;
  if (geometry.chunked) shape.push_back(static_cast<size_t>(geometry.chunks));
  if (geometry.mels > 0) {
    shape.push_back(static_cast<size_t>(geometry.mels));
    shape.push_back(static_cast<size_t>(geometry.frames));
  } else {
    shape.push_back(static_cast<size_t>(geometry.samples));
    shape.push_back(static_cast<size_t>(geometry.channels));
  }
  return shape;
}

struct Sounds {
  using Prepared = media::PreparedAudioChain;
  using Scratch = media::AudioScratch;
  static auto parse(std::string_view text) { return media::parse_audio_chain(text); }
  static auto probe(std::string_view bytes) { return media::probe_audio(bytes); }
  static nb::dict dict_of(const auto& told) { return as_dict(told); }
  static nb::object array_of(const AudioGeometry& geometry, std::vector<uint8_t> bytes) {
    const std::vector<size_t> shape = shape_of(geometry);
    return geometry.floats ? owned_array<float>(std::move(bytes), shape)
                           : owned_array<int16_t>(std::move(bytes), shape);
  }
};

}  // namespace

void bind_media_audio(nb::module_& m) {
  bind_chain<Sounds>(m, "audio", "AudioChain",
                     "float32, samples x channels. Options as in a chain: \"max_seconds=60\".");
}

}  // namespace overlord::python
