// How a window's metadata is made: from the index's lengths, or from decoded blocks. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "overlord/model/sample_meta.h"
#include "overlord/plan/select/source_order.h"
#include "overlord/roles/loader/block_loads.h"
#include "overlord/roles/loader/role.h"

namespace overlord::loader {

model::MetaWindow window_from_index(const OpenSource& source, const SampleId& first,
                                    const std::vector<plan::RowRef>& rows);
model::MetaWindow window_from_blocks(const OpenSource& source, const SampleId& first,
                                     const std::vector<plan::RowRef>& rows,
                                     const std::map<uint32_t, TokenBlockPtr>& blocks,
                                     const std::map<uint32_t, std::string>& broken);

}  // namespace overlord::loader
