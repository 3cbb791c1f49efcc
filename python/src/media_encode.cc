// Binds encoders, for those who make corpora in Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "bindings.h"
#include "errors.h"
#include "overlord/media/image/codecs/jpeg_encode.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using Pixels = nb::ndarray<const uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

nb::bytes encode_jpeg(const Pixels& pixels, int32_t quality) {
  constexpr size_t kMost = 65'535;  // what the format can count to
  if (pixels.shape(0) > kMost || pixels.shape(1) > kMost || pixels.shape(2) > 4) {
    raise(invalid_argument("JPEG: an array is height x width x channels, sides up to 65535"));
  }
  const auto height = static_cast<int32_t>(pixels.shape(0));
  const auto width = static_cast<int32_t>(pixels.shape(1));
  const auto channels = static_cast<int32_t>(pixels.shape(2));
  const media::ImageView view{pixels.data(), width, height, channels,
                              static_cast<ptrdiff_t>(width) * channels};
  Result<std::string> bytes = [&] {
    nb::gil_scoped_release free;
    return media::encode_jpeg(view, quality);
  }();
  const std::string file = unwrap(std::move(bytes));
  return nb::bytes(file.data(), file.size());
}

}  // namespace

void bind_media_encode(nb::module_& m) {
  m.def("encode_jpeg", &encode_jpeg, nb::arg("pixels"), nb::arg("quality") = 90,
        "height x width x 3 (RGB) or x 1 (grey), uint8, as a baseline JPEG file.");
}

}  // namespace overlord::python
