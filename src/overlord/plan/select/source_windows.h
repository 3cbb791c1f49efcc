// SourceWindows: which window a position of a source lies in, for whoever asks about all rows of a
// step. Remembers orders and windows that it was asked for; what it answers follows from the
// sources alone. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "overlord/base/ids.h"
#include "overlord/plan/select/source_order.h"

namespace overlord::plan {

class SourceWindows {
 public:
  using MakeOrder = std::function<SourceOrder(SourceIndex, uint32_t pass)>;

  explicit SourceWindows(MakeOrder make_order) : make_order_(std::move(make_order)) {}

  // Of its pass.
  uint64_t window_of(const SampleId& id);
  uint64_t windows_per_pass(SourceIndex source);

 private:
  struct Found {
    uint32_t pass = 0;
    uint64_t window = 0;
    uint64_t first = 0;  // position
    uint64_t rows = 0;
  };
  struct Known {
    std::deque<std::pair<uint32_t, std::unique_ptr<SourceOrder>>> orders;  // by pass, newest last
    std::vector<Found> windows;  // the one that was asked for last is first
    uint64_t per_pass = 0;       // 0: not known yet
  };
  const SourceOrder& order(SourceIndex source, uint32_t pass, Known* known);

  MakeOrder make_order_;
  std::unordered_map<SourceIndex, Known> known_;
};

}  // namespace overlord::plan
