// Pixels to a JPEG file, for those who make corpora: baseline, 4:2:0, the slow integer transform,
// whose results are the same on every CPU.
#pragma once

#include <cstdint>
#include <string>

#include "overlord/base/status.h"
#include "overlord/media/image/image.h"

namespace overlord::media {

// `image` has one channel (grey) or three (RGB); `quality` is 1 to 100. kUnavailable where this
// build has no libjpeg.
Result<std::string> encode_jpeg(const ImageView& image, int32_t quality);

}  // namespace overlord::media
