// Links between simulated processes that live: cut one way or both ways for a while. A short cut
// only makes what was sent late, in its order. A longer one closes the link, as the wire does with
// a side that says nothing: what was on its way is lost, what is sent then waits until somebody has
// called again, and both sides know. Test only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "overlord/runtime/seams.h"
#include "overlord/sim/world.h"

namespace overlord::sim {

class Links {
 public:
  explicit Links(World& world) : world_(world) {}

  using Told = std::function<void(size_t, size_t)>;
  Told closed;  // both sides find that it is
  Told healed;  // one that was closed: they are connected again

  // For about so long; nothing to do where it is cut already.
  void cut(size_t a, size_t b, int64_t typical_ns);
  // True: what arrives is lost, or `task` is done when the link is back.
  bool takes(size_t from, size_t to, int64_t sent_ns, runtime::Task task);
  // Closed, or about to be.
  bool broken(size_t a, size_t b) const;
  // A process is dead: the links of the next one are new.
  void forget(size_t process);

 private:
  using Pair = std::pair<size_t, size_t>;  // the lower first
  struct Cut {
    uint64_t number = 0;
    bool up = false, down = false;  // from the lower to the higher process, and back
    bool closes = false;
    int64_t closes_ns = 0;
    std::vector<runtime::Task> held;
  };
  static Pair pair_of(size_t a, size_t b) { return a < b ? Pair(a, b) : Pair(b, a); }
  void heal(const Pair& pair, uint64_t number);
  bool is(const Pair& pair, uint64_t number) const;

  World& world_;
  std::map<Pair, Cut> cuts_;
  uint64_t last_number_ = 0;
};

}  // namespace overlord::sim
