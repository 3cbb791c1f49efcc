// Which index is of what: the key in its name, which others may give their shards to it, and
// whether its lengths are part of what it stands for. docs/decisions/0045-indexes-by-content.md.
#pragma once

#include <string>
#include <vector>

#include "overlord/columnar/index/source_index.h"
#include "overlord/model/source.h"

namespace overlord::columnar {

// What stands for everything that decides an index with lengths of this source: how its files are
// read and tokenised, and `patterns`, which say what files those are. 16 hex digits, for its name.
std::string index_key(const model::Source& source, const IndexOptions& options,
                      const std::vector<std::string>& patterns);

// Whether decoding finds all bad rows that the length pass finds and no others, so that a stream
// may know lengths early or late. Not so where lengths are posted without a look at the tokens
// (Megatron), nor where a user's own code decides, which may die or be late (a transform).
bool lengths_change_nothing(const model::Source& source);

}  // namespace overlord::columnar
