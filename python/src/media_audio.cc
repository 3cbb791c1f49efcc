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
#include "overlord/media/audio_chain.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using media::AudioGeometry;
using media::AudioHeader;

std::string_view view_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

nb::dict dict_of(const AudioHeader& header) {
  nb::dict out;
  out["format"] = std::string(media::format_name(header.format));
  out["coding"] = std::string(media::coding_name(header.coding));
  out["channels"] = header.channels;
  out["sample_rate"] = header.sample_rate;
  out["bit_depth"] = header.bit_depth;
  out["frames"] = header.frames;
  out["milliseconds"] = header.milliseconds();
  out["exact"] = header.exact();
  return out;
}

nb::dict dict_of(const AudioGeometry& geometry) {
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

nb::object array_of(const AudioGeometry& geometry, std::vector<uint8_t> bytes) {
  auto* held = new std::vector<uint8_t>(std::move(bytes));
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<uint8_t>*>(p); });
  const std::vector<size_t> shape = shape_of(geometry);
  if (geometry.floats) {
    return nb::cast(nb::ndarray<nb::numpy, float>(reinterpret_cast<float*>(held->data()),
                                                  shape.size(), shape.data(), owner));
  }
  return nb::cast(nb::ndarray<nb::numpy, int16_t>(reinterpret_cast<int16_t*>(held->data()),
                                                  shape.size(), shape.data(), owner));
}

// A chain with the memory of the thread that calls it.
class AudioChain {
 public:
  explicit AudioChain(const std::string& text)
      : chain_(unwrap(media::PreparedAudioChain::prepare(unwrap(media::parse_audio_chain(text))))) {
  }

  std::string text() const { return media::chain_text(chain_.chain()); }

  nb::tuple run(const nb::bytes& bytes, uint64_t key) const {
    Result<media::PreparedAudioChain::Outcome> outcome = media::PreparedAudioChain::Outcome();
    {
      nb::gil_scoped_release free;
      thread_local media::AudioScratch scratch;
      outcome = chain_.run(view_of(bytes), key, scratch);
    }
    media::PreparedAudioChain::Outcome made = unwrap(std::move(outcome));
    const nb::dict geometry = dict_of(made.geometry);
    return nb::make_tuple(array_of(made.geometry, std::move(made.bytes)), geometry);
  }

  nb::dict planned_size(const nb::bytes& bytes) const {
    const AudioHeader header = unwrap(media::probe_audio(view_of(bytes)));
    return dict_of(unwrap(chain_.planned_size(header)));
  }

 private:
  media::PreparedAudioChain chain_;
};

}  // namespace

void bind_media_audio(nb::module_& m) {
  m.def(
      "probe_audio",
      [](const nb::bytes& bytes) { return dict_of(unwrap(media::probe_audio(view_of(bytes)))); },
      nb::arg("bytes"), "What a sound's headers say, without decoding it.");
  m.def(
      "decode_audio",
      [](const nb::bytes& bytes, const std::string& options) {
        return nb::object(AudioChain("decode " + options).run(bytes, 0)[0]);
      },
      nb::arg("bytes"), nb::arg("options") = "",
      "float32, samples x channels. Options as in a chain: \"max_seconds=60\".");
  m.def(
      "run_audio_chain",
      [](const nb::bytes& bytes, const std::string& chain, uint64_t key) {
        return AudioChain(chain).run(bytes, key);
      },
      nb::arg("bytes"), nb::arg("chain"), nb::arg("key") = 0,
      "(array, geometry) of a chain in its text form.");
  nb::class_<AudioChain>(m, "AudioChain", "A prepared chain; may be used by many threads at once.")
      .def(nb::init<const std::string&>(), nb::arg("text"))
      .def_prop_ro("text", &AudioChain::text, "The text form with every value named.")
      .def("run", &AudioChain::run, nb::arg("bytes"), nb::arg("key") = 0, "(array, geometry)")
      .def("planned_size", &AudioChain::planned_size, nb::arg("bytes"),
           "The geometry that run() will deliver, from the header alone.");
}

}  // namespace overlord::python
