// What a checker of one promise says of a run: nothing, or how the promise was broken. Test only.
#pragma once

#include <optional>
#include <string>

namespace overlord::sim::checkers {

using Breach = std::optional<std::string>;
inline const Breach kKept = std::nullopt;

}  // namespace overlord::sim::checkers
