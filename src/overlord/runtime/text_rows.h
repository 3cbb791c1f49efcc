// The one check every TextEncoder makes before it believes the offsets of a TextRows.
// A pure function; it never looks at the text itself.
#pragma once

#include "overlord/base/status.h"
#include "overlord/runtime/seams.h"

namespace overlord::runtime {

// kInvalidArgument unless `ends` never falls and its last value is the size of `bytes`.
Status check_text_rows(const TextRows& rows);

}  // namespace overlord::runtime
