// What prepared chains of all kinds have in common. A prepared chain is immutable: a pure function
// of (bytes, key) whose outcome has a geometry that the header alone tells.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace overlord::media {

template <typename Chain, typename Header, typename Geometry>
class PreparedSteps {
 public:
  // Of a run that probes, plans and allocates by itself.
  struct Outcome {
    Header header;
    Geometry geometry;
    std::vector<uint8_t> bytes;
  };

  const Chain& chain() const { return chain_; }

 protected:
  template <typename Step>
  const Step* find() const {
    for (const auto& step : chain_.steps) {
      if (const Step* const found = std::get_if<Step>(&step)) return found;
    }
    return nullptr;
  }

  Chain chain_;
};

}  // namespace overlord::media
