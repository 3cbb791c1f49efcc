// OneOf: names the messages that a receiver lets pass, so that one that is added to the protocol
// does not compile until each receiver has said what it does with it.
#pragma once

#include <concepts>

namespace overlord::protocol {

template <typename Message, typename... Named>
concept OneOf = (std::same_as<Message, Named> || ...);

}  // namespace overlord::protocol
