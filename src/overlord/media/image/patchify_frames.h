// Patches that span several frames of a clip, filled frame by frame; made in patchify.cc.
#pragma once

#include <cstdint>

#include "overlord/media/image/image.h"
#include "overlord/media/image/patchify.h"

namespace overlord::media {

// The qwen2vl rows of `temporal` frames, one frame at a time: fills frame `frame` of each row.
void patchify_frame(const ImageView& image, const Patchify& rule, int32_t frame,
                    const NormaliseTable& table, float* out);
void patchify_frame(const ImageView& image, const Patchify& rule, int32_t frame, uint8_t* out);

}  // namespace overlord::media
