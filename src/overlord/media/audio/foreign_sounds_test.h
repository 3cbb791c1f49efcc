// What a decoder promises of bytes from anywhere: a Status, or a sound of the planned size.
// Needs codecs: AUDIO
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/check.h"
#include "overlord/media/audio/audio_chain.h"
#include "overlord/media/audio/audio_head.h"
#include "overlord/media/audio/made_up_sounds_test.h"

namespace overlord::media {

// One of every coding, to change bytes of.
inline std::vector<std::string> good_sounds() {
  return {
      sound_file(hum(3000, 1, 1), 1, 16000, kWav16),
      sound_file(hum(900, 2, 1), 2, 44100, kWavFloat),
      sound_file(hum(900, 1, 1), 1, 8000, SF_FORMAT_WAVEX | SF_FORMAT_ULAW),
      sound_file(hum(3000, 2, 2), 2, 44100, kFlac16),
      sound_file(hum(3000, 1, 2), 1, 16000, kOggVorbis),
      sound_file(hum(4800, 1, 2), 1, 48000, kOggOpus),
      sound_file(hum(4800, 1, 2), 1, 16000, kMp3),
  };
}

// From the first half of the bytes and what is needed beside it, as an index sees them.
inline void takes_sound_head(std::string_view bytes) {
  BlobHead blob{bytes.substr(0, bytes.size() / 2), bytes.size()};
  const auto need = audio_probe_need(blob);
  if (need.ok() && need->size_bytes > 0) {
    OVERLORD_CHECK(need->offset + need->size_bytes <= bytes.size(), "bytes that are not there");
    (need->offset == 0 ? blob.head : blob.tail) = bytes.substr(need->offset, need->size_bytes);
    blob.tail_offset = need->offset;
  }
  const auto header = probe_audio_head(blob);
  OVERLORD_CHECK(header.ok() || !header.status().message().empty(), "a refusal without a reason");
  OVERLORD_CHECK(!header.ok() || header->sample_rate > 0, "a header without a rate");
}

// Small limits, so that a fuzzer looks at headers and codes rather than at many samples.
inline void takes_sound(std::string_view bytes) {
  static const auto* const chain = new PreparedAudioChain(
      PreparedAudioChain::prepare(
          parse_audio_chain("decode max_frames=65536; chunk samples=4000").value())
          .value());
  static AudioScratch scratch;
  takes_sound_head(bytes);
  const auto outcome = chain->run(bytes, 1, scratch);
  if (!outcome.ok()) {
    OVERLORD_CHECK(!outcome.status().message().empty(), "a refusal without a reason");
    return;
  }
  const auto planned = chain->planned_size(outcome->header);
  OVERLORD_CHECK(planned.ok() && planned->bytes() == outcome->bytes.size(),
                 "a sound of another size than planned");
}

}  // namespace overlord::media
