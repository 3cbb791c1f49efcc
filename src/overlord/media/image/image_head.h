// What some of a picture's bytes tell of it, for those who index pictures and do not want to read
// them whole. Less than probe_image says where a PNG has its EXIF behind its pixels, so who decodes
// compares the two.
#pragma once

#include "overlord/base/status.h"
#include "overlord/media/blob_head.h"
#include "overlord/media/image/image_header.h"

namespace overlord::media {

// What it takes beside a head: the end of a WebP, which keeps its EXIF there.
Result<BlobNeed> image_probe_need(const BlobHead& blob);
Result<ImageHeader> probe_image_head(const BlobHead& blob);

}  // namespace overlord::media
