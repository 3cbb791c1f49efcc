// Checks that ready tokens are ids of the vocabulary: one vectorised pass over the block, and only
// when that finds something a second one to name the rows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/columnar/block_reader.h"

namespace overlord::columnar {

// Names a row of the block in a reason.
using RowNamer = std::function<std::string(uint32_t row, std::string_view what)>;

// Turns rows with an id below 0 or at or above `vocabulary` (0: any id that fits 32 bits) into bad
// rows. Rows that are bad or empty already are left alone; `bad` stays sorted.
void check_token_ids(uint32_t vocabulary, const RowNamer& name, TokenBlock* block);

// Rows that were not wanted (BlockRequest::rows, empty: all are) get count 0 and lose their reason.
void keep_wanted(const std::vector<uint32_t>& rows, TokenBlock* block);

}  // namespace overlord::columnar
