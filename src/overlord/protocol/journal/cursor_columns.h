// The cursors of a state as what each of their numbers moved since the state before, one column
// behind the other. Most did not move, and samples move as positions do. A debt moves by what was
// asked of its source less what was drawn: all sources are asked for more or less together, by
// weights that hardly change, so what the step before asked of each tells nearly all of it.
#pragma once

#include <cstdint>
#include <vector>

#include "overlord/base/bytes.h"

namespace overlord::protocol {

// Of equally many sources in all three. `earlier`: two steps before, or empty.
using CursorNumbers = std::vector<uint64_t>;
void write_columns(ByteWriter* writer, const CursorNumbers& earlier, const CursorNumbers& before,
                   const CursorNumbers& after);
// The numbers after. What no writer wrote fails the reader or gives some numbers.
CursorNumbers read_columns(ByteReader* reader, const CursorNumbers& earlier,
                           const CursorNumbers& before);

}  // namespace overlord::protocol
