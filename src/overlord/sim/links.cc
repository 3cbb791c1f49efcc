#include "overlord/sim/links.h"

#include <utility>

namespace overlord::sim {

bool Links::is(const Pair& pair, uint64_t number) const {
  const auto found = cuts_.find(pair);
  return found != cuts_.end() && found->second.number == number;
}

void Links::cut(size_t a, size_t b, int64_t typical_ns) {
  const Pair pair = pair_of(a, b);
  if (cuts_.contains(pair)) return;
  Dice& dice = world_.dice();
  const uint64_t ways = dice.below(3);
  Cut one;
  one.number = ++last_number_;
  one.up = ways != 1;
  one.down = ways != 0;
  one.closes = dice.below(2) == 0;
  one.closes_ns = world_.now_ns() + dice.delay_ns(typical_ns);
  int64_t until_ns = one.closes_ns;
  if (one.closes) until_ns += dice.delay_ns(typical_ns);
  world_.landed(one.closes ? Fault::kLinkCut : Fault::kLinkHeld);
  world_.be_patient(until_ns);
  if (one.closes) {
    world_.at(one.closes_ns, [this, pair, number = one.number] {
      if (is(pair, number)) closed(pair.first, pair.second);
    });
  }
  world_.at(until_ns, [this, pair, number = one.number] { heal(pair, number); });
  cuts_.emplace(pair, std::move(one));
}

bool Links::takes(size_t from, size_t to, int64_t sent_ns, runtime::Task task) {
  const auto found = cuts_.find(pair_of(from, to));
  if (found == cuts_.end()) return false;
  Cut& cut = found->second;
  const bool is_closed = cut.closes && world_.now_ns() >= cut.closes_ns;
  if (!is_closed && !(from < to ? cut.up : cut.down)) return false;
  if (!cut.closes || sent_ns >= cut.closes_ns) cut.held.push_back(std::move(task));
  return true;
}

bool Links::broken(size_t a, size_t b) const {
  const auto found = cuts_.find(pair_of(a, b));
  return found != cuts_.end() && found->second.closes;
}

void Links::heal(const Pair& pair, uint64_t number) {
  if (!is(pair, number)) return;
  const Cut cut = std::move(cuts_.extract(pair).mapped());
  if (cut.closes) healed(pair.first, pair.second);
  for (const runtime::Task& task : cut.held) task();
}

void Links::forget(size_t process) {
  std::erase_if(cuts_, [process](const auto& one) {
    return one.first.first == process || one.first.second == process;
  });
}

}  // namespace overlord::sim
