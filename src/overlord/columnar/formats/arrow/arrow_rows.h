// From the Arrow columns of a block to rows. Faults of a row make it a bad row.
#pragma once

#include <arrow/array.h>
#include <arrow/chunked_array.h>

#include <functional>
#include <memory>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/token_checks.h"
#include "overlord/model/source.h"

namespace overlord::columnar {

using BufferMaker = std::function<Result<runtime::Buffer>(size_t size_bytes)>;

// `column` is validated, of bytes (32 or 64 bit offsets).
TextBlock text_rows(const arrow::ChunkedArray& column, const model::Source& source,
                    const RowNamer& name);

// `tokens` and `mask` (or null) are validated arrays of lists (column_types.h: is_list); the values
// stay theirs: `holder` keeps them alive.
Result<TokenBlock> token_rows(const arrow::Array& tokens, const arrow::Array* mask,
                              std::shared_ptr<const void> holder, const model::Source& source,
                              const RowNamer& name, const BufferMaker& make_buffer);

}  // namespace overlord::columnar
