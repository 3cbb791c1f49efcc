// kStepsKept: so many plans are kept, by constructors and by loaders, of steps that all ranks are
// done with: a rank that was killed comes back at a step that it had got and not finished.
#pragma once

#include <cstdint>

namespace overlord::protocol {

inline constexpr uint32_t kStepsKept = 4;

}  // namespace overlord::protocol
