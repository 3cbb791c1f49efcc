// The one thing of EXIF that changes pixels: the orientation tag of the first directory.
#pragma once

#include <cstdint>
#include <string_view>

namespace overlord::media {

// `tiff` starts at the byte order mark ("II" or "MM"). 1 where the tag is absent or the block is
// broken: a bad EXIF block says nothing about the picture, and no viewer refuses one for it.
int32_t exif_orientation(std::string_view tiff);

}  // namespace overlord::media
