// What is handed to a constructor, in bytes.
#pragma once

#include <cstdint>

#include "overlord/protocol/messages.h"

namespace overlord::loader {

inline uint64_t bytes_of(const protocol::Payload& payload) {
  uint64_t bytes = 0;
  for (const model::TokenSpan& span : payload.spans) {
    if (span.data == nullptr) continue;
    bytes += span.count * (model::element_bytes(span.element) + (span.mask != nullptr ? 1 : 0));
  }
  for (const auto* pieces : {&payload.media, &payload.encoded}) {
    for (const model::MediaPiece& piece : *pieces) bytes += piece.data.size_bytes;
  }
  return bytes;
}

}  // namespace overlord::loader
