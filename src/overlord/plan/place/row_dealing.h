// Who reads what of a plan: every row goes to the slot that owns its window (law 8). The planner
// deals once, for loaders and constructors alike: who is asked is who was told.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "overlord/model/owner_map.h"
#include "overlord/model/plan.h"
#include "overlord/model/plan_index.h"
#include "overlord/model/slot_rows.h"
#include "overlord/plan/select/source_windows.h"

namespace overlord::plan {

struct DealtRows {
  model::LoaderSlot slot;
  model::SlotRowsPtr rows;
};

// Of all slots that read anything, ascending; `index` is the plan's and is told whom to ask.
// `slots`: by source, where the plan does not say otherwise. `windows`: asked for sources of
// several slots; null where there are none.
std::vector<DealtRows> deal_rows(const model::Plan& plan, std::span<const uint32_t> slots,
                                 SourceWindows* windows, model::PlanIndex* index);
// The rows of one slot alone; null: it has none.
model::SlotRowsPtr rows_of(const model::Plan& plan, std::span<const uint32_t> slots,
                           SourceWindows* windows, const model::LoaderSlot& slot);

}  // namespace overlord::plan
