// TokenSpan: the raw tokens of one document somewhere in memory, as a loader hands them over.
#pragma once

#include <cstdint>

#include "overlord/model/element.h"

namespace overlord::model {

// Without bos and eod. data == null: a hole, found bad after its metadata was posted (law 5).
struct TokenSpan {
  const void* data = nullptr;
  const uint8_t* mask = nullptr;  // one per token; null: every token carries loss
  uint32_t count = 0;             // of the whole document
  Element element = Element::kI32;
};

}  // namespace overlord::model
