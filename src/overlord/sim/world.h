// The simulated world: one thread, a virtual clock, and a queue of things that will happen at times
// drawn from a seed. Role code runs unchanged; every order that threads, disks and carriers could
// produce is some seed. Test only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "overlord/protocol/messages.h"
#include "overlord/runtime/in_memory/memory_storage.h"
#include "overlord/runtime/seams.h"
#include "overlord/sim/faults.h"

namespace overlord::sim {

// Dice of one run. Delays are skewed: most are short, some are very long.
class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  uint64_t below(uint64_t limit);
  int64_t delay_ns(int64_t typical_ns);

 private:
  uint64_t seed_;
  uint64_t draws_ = 0;
};

class World final : public runtime::Clock, public runtime::Executor {
 public:
  explicit World(uint64_t seed) : dice_(seed) {}
  ~World() override;  // adds itself to the tally

  int64_t now_ns() override { return now_ns_; }
  void post(runtime::Task task) override { post_after(0, std::move(task)); }
  void post_after(int64_t delay_ns, runtime::Task task) override;
  // At exactly this time, in the order of the calls: for carriers that keep order.
  void at(int64_t when_ns, runtime::Task task);

  // Run events until `done` says so; false when nothing is left to happen (a hang), after
  // `event_limit` events (a livelock), or kPatienceNs after the last progress or fault.
  static constexpr int64_t kPatienceNs = 10'000'000'000;
  bool run_until(const std::function<bool()>& done, uint64_t event_limit);
  uint64_t events() const { return events_; }
  Dice& dice() { return dice_; }

  // One chance in its rarity, as long as there are any left.
  bool strikes(Spells* spells);
  void landed(Fault fault);
  const Landed& landed() const { return landed_; }
  // Somebody has got on, or a fault lasts until then: patience begins anew.
  void be_patient(int64_t from_ns) { patient_ns_ = std::max(patient_ns_, from_ns); }
  // The longest time in which nobody got on though no fault lasted.
  int64_t longest_wait_ns() const { return longest_wait_ns_; }
  // Something that happened, for the digest of all that did.
  void trace(uint64_t what);

 private:
  struct Event {
    int64_t when_ns;
    uint64_t tie;
    uint64_t sequence;
    runtime::Task task;
    bool operator>(const Event& other) const;
  };
  Dice dice_;
  int64_t now_ns_ = 0;
  uint64_t sequence_ = 0;
  uint64_t events_ = 0;
  uint64_t trace_ = 0;
  Landed landed_;
  int64_t patient_ns_ = 0;
  int64_t longest_wait_ns_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
};

// Delays envelopes; keeps order per (from, to, home) and nothing else.
class SlowTransport final : public runtime::Transport<protocol::Envelope> {
 public:
  explicit SlowTransport(World& world) : world_(world) {}
  // Called with what arrives, when it was sent, and to which home of its addressee.
  using Deliver = std::function<void(protocol::Envelope, int64_t, size_t)>;
  // The homes that something is sent to, as its sender knows them.
  using Route = std::function<std::vector<size_t>(const protocol::Envelope&)>;
  void connect(Deliver deliver, Route route) {
    deliver_ = std::move(deliver);
    route_ = std::move(route);
  }
  void send(protocol::Envelope envelope) override;
  uint64_t sent() const { return sent_; }
  // Called with what is sent; unset: nobody looks.
  std::function<void(const protocol::Envelope&)> on_sent;
  // What becomes of an envelope on its way; unset: nothing.
  std::function<protocol::Envelope(protocol::Envelope)> on_the_way;

 private:
  World& world_;
  Deliver deliver_;
  Route route_;
  std::map<std::tuple<protocol::Address, protocol::Address, size_t>, int64_t> last_ns_;
  uint64_t sent_ = 0;
};

}  // namespace overlord::sim
