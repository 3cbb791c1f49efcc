#include "overlord/sim/world.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

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

bool World::run_until(const std::function<bool()>& done, uint64_t event_limit) {
  const uint64_t limit = events_ + event_limit;
  while (!done()) {
    if (queue_.empty() || events_ >= limit) return false;
    Event event = std::move(const_cast<Event&>(queue_.top()));
    queue_.pop();
    now_ns_ = event.when_ns;
    ++events_;
    event.task();
  }
  return true;
}

void StoppableExecutor::post_after(int64_t delay_ns, runtime::Task task) {
  world_.post_after(delay_ns, [this, task = std::move(task)]() mutable {
    if (!stopped_) return task();
    waiting_.push_back(std::move(task));
  });
}

void StoppableExecutor::go_on() {
  stopped_ = false;
  for (runtime::Task& task : std::exchange(waiting_, {})) world_.post(std::move(task));
}

void SlowStorage::read(runtime::ReadRequest request, runtime::CancelToken cancel,
                       runtime::ReadDone done) {
  auto shared = std::make_shared<runtime::ReadRequest>(std::move(request));
  world_.post_after(world_.dice().delay_ns(200 * kMicrosecond), [this, shared, cancel, done] {
    if (cancel.cancelled()) {
      done(Status(Code::kCancelled, "read cancelled"));
    } else {
      done(objects_.read_blocking(*shared));
    }
  });
}

void SlowTransport::send(protocol::Envelope envelope) {
  ++sent_;
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
