// What some of a sound's bytes tell of it, for those who index sounds and do not want to read them
// whole. WAV and FLAC say it in front, MP3 behind its ID3 tag, and OGG says on its last page how
// long it is.
#pragma once

#include "overlord/base/status.h"
#include "overlord/media/audio/audio_header.h"
#include "overlord/media/blob_head.h"

namespace overlord::media {

// What it takes beside a head to know the length.
Result<BlobNeed> audio_probe_need(const BlobHead& blob);
Result<AudioHeader> probe_audio_head(const BlobHead& blob);

}  // namespace overlord::media
