#include "overlord/roles/loader/order_cache.h"

#include "overlord/base/check.h"

namespace overlord::loader {
namespace {

constexpr size_t kPassesKept = 2;
constexpr size_t kWindowsKept = 3;  // the one being served, the next, and one behind

}  // namespace

const plan::SourceOrder& OrderCache::order(uint32_t pass) {
  std::unique_ptr<plan::SourceOrder>& slot = orders_[pass];
  if (!slot) {
    slot = std::make_unique<plan::SourceOrder>(
        plan::make_order(source_->spec, source_->manifest, source_->seed, pass));
    if (orders_.size() > kPassesKept) {  // the oldest pass, unless it is the one just asked for
      orders_.erase(orders_.begin()->first == pass ? std::prev(orders_.end()) : orders_.begin());
    }
  }
  return *orders_.at(pass);
}

const OrderCache::Expanded& OrderCache::expand(uint32_t pass, uint64_t window) {
  for (auto it = expanded_.begin(); it != expanded_.end(); ++it) {
    if (it->pass != pass || it->window != window) continue;
    expanded_.splice(expanded_.begin(), expanded_, it);
    return expanded_.front();
  }
  auto rows = std::make_shared<std::vector<plan::RowRef>>();
  const plan::SourceOrder& source_order = order(pass);
  source_order.expand(window, rows.get());
  OVERLORD_CHECK(rows->size() == source_order.window(window).rows, "a window has all its rows");
  expanded_.push_front({pass, window, source_order.window(window).first_position, std::move(rows)});
  if (expanded_.size() > kWindowsKept) expanded_.pop_back();
  return expanded_.front();
}

std::shared_ptr<const std::vector<plan::RowRef>> OrderCache::rows(uint32_t pass, uint64_t window) {
  return expand(pass, window).rows;
}

std::shared_ptr<const std::vector<plan::RowRef>> OrderCache::rows_once(uint32_t pass,
                                                                       uint64_t window) {
  auto rows = std::make_shared<std::vector<plan::RowRef>>();
  order(pass).expand(window, rows.get());
  return rows;
}

OrderCache::Located OrderCache::locate(uint32_t pass, uint64_t position) {
  for (const Expanded& known : expanded_) {  // a step takes from two windows, in packing order
    if (known.pass == pass && position >= known.first_position &&
        position - known.first_position < known.rows->size()) {
      return {known.window, (*known.rows)[position - known.first_position]};
    }
  }
  const uint64_t window = order(pass).window_of(position);
  const Expanded& found = expand(pass, window);
  OVERLORD_CHECK(position - found.first_position < found.rows->size(),
                 "the window holds the position");
  return {window, (*found.rows)[position - found.first_position]};
}

uint64_t OrderCache::memory_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [pass, order] : orders_) bytes += order->memory_bytes();
  for (const Expanded& expanded : expanded_) bytes += expanded.rows->size() * sizeof(plan::RowRef);
  return bytes;
}

}  // namespace overlord::loader
