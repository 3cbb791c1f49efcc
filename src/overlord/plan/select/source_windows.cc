#include "overlord/plan/select/source_windows.h"

#include <algorithm>

#include "overlord/base/check.h"

namespace overlord::plan {
namespace {

// A step takes from a window or two of a source; pieces that were carried over lie in older ones,
// and a small source passes by several times.
constexpr size_t kWindowsKept = 64;
constexpr size_t kOrdersKept = 16;

}  // namespace

const SourceOrder& SourceWindows::order(SourceIndex source, uint32_t pass, Known* known) {
  for (const auto& [of, order] : known->orders) {
    if (of == pass) return *order;
  }
  known->orders.emplace_back(pass, std::make_unique<SourceOrder>(make_order_(source, pass)));
  if (known->orders.size() > kOrdersKept) known->orders.pop_front();
  known->per_pass = known->orders.back().second->windows();
  OVERLORD_CHECK(known->per_pass > 0, "a source that is drawn from has windows");
  return *known->orders.back().second;
}

uint64_t SourceWindows::windows_per_pass(SourceIndex source) {
  Known& known = known_[source];
  if (known.per_pass == 0) order(source, 0, &known);
  return known.per_pass;
}

uint64_t SourceWindows::window_of(const SampleId& id) {
  Known& known = known_[id.source];
  for (auto it = known.windows.begin(); it != known.windows.end(); ++it) {
    if (it->pass != id.pass || id.position - it->first >= it->rows) continue;
    std::rotate(known.windows.begin(), it, it + 1);
    return known.windows.front().window;
  }
  const SourceOrder& order = this->order(id.source, id.pass, &known);
  const uint64_t window = order.window_of(id.position);
  const OrderWindow range = order.window(window);
  OVERLORD_CHECK(id.position - range.first_position < range.rows, "a window holds its positions");
  if (known.windows.size() == kWindowsKept) known.windows.pop_back();
  known.windows.insert(known.windows.begin(), {id.pass, window, range.first_position, range.rows});
  return window;
}

}  // namespace overlord::plan
