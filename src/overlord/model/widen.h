// The inner loops of assembly: stored tokens of any integer width into the trainer's type.
#pragma once

#include <cstdint>

#include "overlord/model/token_span.h"

namespace overlord::model {

// out[i] = raw token first + i. The caller has checked ids against the vocabulary.
void widen(const model::TokenSpan& span, uint32_t first, uint32_t count, uint16_t* out);
void widen(const model::TokenSpan& span, uint32_t first, uint32_t count, int32_t* out);
void widen(const model::TokenSpan& span, uint32_t first, uint32_t count, int64_t* out);

// out[i] = first + i
void number(int32_t* out, uint32_t count, uint32_t first);

}  // namespace overlord::model
