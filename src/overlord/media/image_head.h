// What the first bytes of a picture tell of it, for those who index pictures and do not want to
// read them whole. Less than probe_image says: EXIF that a format keeps behind its pixels (WebP,
// some PNG) is not seen, so who decodes compares the two.
#pragma once

#include <cstdint>
#include <string_view>

#include "overlord/base/status.h"
#include "overlord/media/image_header.h"

namespace overlord::media {

// `head` is the begin of a picture of `size_bytes`, or all of it.
Result<ImageHeader> probe_image_head(std::string_view head, uint64_t size_bytes);

}  // namespace overlord::media
