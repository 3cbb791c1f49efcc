// Values of MDS columns as rows of text or of tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/formats/mds/mds_shard.h"
#include "overlord/columnar/token_checks.h"

namespace overlord::columnar {

// A row's values, in the order of MdsColumns::rows, or why there are none.
struct MdsRow {
  std::string fault;                     // with its row named
  std::vector<std::string_view> values;  // when there is no fault
};

using MdsBuffer = std::function<Result<runtime::Buffer>(size_t size_bytes)>;

Result<RowBlock> mds_rows(const model::Source& source, const MdsColumns& columns,
                          const std::vector<MdsRow>& rows, const RowNamer& name,
                          const MdsBuffer& buffer);

}  // namespace overlord::columnar
