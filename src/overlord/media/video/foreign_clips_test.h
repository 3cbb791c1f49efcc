// What reading and decoding promise of clips from anywhere: a Status, or frames of the planned
// size.
#pragma once

#include <string_view>

#include "overlord/base/check.h"
#include "overlord/media/video/video_chain.h"

namespace overlord::media {

// Small limits, so that a fuzzer looks at tables and codes rather than at many pixels.
inline void takes_clip(std::string_view bytes) {
  static const auto* const chain = new PreparedVideoChain(
      PreparedVideoChain::prepare(
          parse_video_chain("decode max_pixels=65536 max_frames=4096 max_work=4194304; "
                            "sample frames=3; resize width=16 height=16")
              .value())
          .value());
  static VideoScratch scratch;
  // A head alone must not break what reads it; a whole head asks for nothing or for less.
  BlobHead blob{bytes.substr(0, bytes.size() / 2), bytes.size()};
  const auto need = video_probe_need(blob);
  if (need.ok() && need->size_bytes > 0) {
    OVERLORD_CHECK(need->offset <= bytes.size() && need->size_bytes <= bytes.size() - need->offset,
                   "a probe needs bytes that the blob does not have");
    blob.tail_offset = need->offset;
    blob.tail = bytes.substr(need->offset, need->size_bytes);
    (void)probe_video(blob, {});
  }
  const auto outcome = chain->run(bytes, 1, scratch);
  if (!outcome.ok()) {
    OVERLORD_CHECK(!outcome.status().message().empty(), "a refusal without a reason");
    return;
  }
  const auto planned = chain->planned_size(outcome->header);
  OVERLORD_CHECK(planned.ok() && planned->bytes() == outcome->bytes.size(),
                 "a clip of another size than planned");
}

}  // namespace overlord::media
