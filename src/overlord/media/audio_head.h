// What the first bytes of a sound tell of it, for those who index sounds and do not want to read
// them whole. WAV and FLAC have all of it there, and MP3 as much as the library ever looks at. An
// OGG says only on its last page how long it is, so it must be there to its end.
#pragma once

#include <cstdint>
#include <string_view>

#include "overlord/base/status.h"
#include "overlord/media/audio_header.h"

namespace overlord::media {

// `head` is the begin of a sound of `size_bytes`, or all of it.
Result<AudioHeader> probe_audio_head(std::string_view head, uint64_t size_bytes);

}  // namespace overlord::media
