#include "overlord/sim/world.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "overlord/base/hash.h"
#include "overlord/base/rng.h"

namespace overlord::sim {
namespace {

constexpr int64_t kMicrosecond = 1'000;

}  // namespace

uint64_t Dice::below(uint64_t limit) { return uniform_below(seed_, draws_++, 0, limit); }

int64_t Dice::delay_ns(int64_t typical_ns) {
  const auto base = static_cast<int64_t>(below(static_cast<uint64_t>(typical_ns) + 1));
  return below(16) == 0 ? base * 50 : base;  // one in sixteen is very late
}

bool World::Event::operator>(const Event& other) const {
  return std::tie(when_ns, tie, sequence) > std::tie(other.when_ns, other.tie, other.sequence);
}

void World::post_after(int64_t delay_ns, runtime::Task task) {
  const int64_t when = now_ns_ + delay_ns + dice_.delay_ns(20 * kMicrosecond);
  queue_.push({when, dice_.below(1 << 16), sequence_++, std::move(task)});
}

void World::at(int64_t when_ns, runtime::Task task) {
  queue_.push({std::max(when_ns, now_ns_), 0, sequence_++, std::move(task)});
}

World::~World() {
  Tally& all = tally();
  all.trace = hash64(&trace_, sizeof(trace_), all.trace);
  all.simulated_ns += now_ns_;
  all.landed += landed_;
}

void World::trace(uint64_t what) {
  const uint64_t both[] = {trace_, what};
  trace_ = hash64(both, sizeof(both));
}

bool World::strikes(Spells* spells) {
  if (spells->most == 0 || dice_.below(spells->rarity) != 0) return false;
  --spells->most;
  return true;
}

void World::landed(Fault fault) {
  landed_.add(fault);
  be_patient(now_ns_);
  trace(static_cast<uint64_t>(fault));
}

bool World::run_until(const std::function<bool()>& done, uint64_t event_limit) {
  const uint64_t limit = events_ + event_limit;
  while (!done()) {
    if (queue_.empty() || events_ >= limit) return false;
    longest_wait_ns_ = std::max(longest_wait_ns_, now_ns_ - patient_ns_);
    if (longest_wait_ns_ > kPatienceNs) return false;
    Event event = std::move(const_cast<Event&>(queue_.top()));
    queue_.pop();
    now_ns_ = event.when_ns;
    ++events_;
    trace(static_cast<uint64_t>(now_ns_));
    event.task();
  }
  return true;
}

void SlowTransport::send(protocol::Envelope envelope) {
  ++sent_;
  if (on_sent) on_sent(envelope);
  const int64_t sent_ns = world_.now_ns();
  for (const size_t home : route_(envelope)) {
    int64_t& last = last_ns_[{envelope.from, envelope.to, home}];
    last = std::max(last, world_.now_ns() + world_.dice().delay_ns(50 * kMicrosecond));
    auto shared = std::make_shared<protocol::Envelope>(envelope);
    world_.at(last, [this, shared, sent_ns, home] {
      deliver_(on_the_way ? on_the_way(std::move(*shared)) : std::move(*shared), sent_ns, home);
    });
  }
}

}  // namespace overlord::sim
