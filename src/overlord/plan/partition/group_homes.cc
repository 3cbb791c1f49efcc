#include "overlord/plan/partition/group_homes.h"

#include <algorithm>
#include <optional>

#include "overlord/base/check.h"

namespace overlord::plan {
namespace {

// Work for each core. Compared by cross multiplication: 2^32 groups of 2^32 would not overflow.
struct Busy {
  unsigned __int128 work = 0;
  uint32_t cores = 1;

  friend bool operator<(const Busy& a, const Busy& b) {
    return a.work * b.cores < b.work * a.cores;
  }
};

class Homes {
 public:
  Homes(const std::vector<HomelessGroup>& groups, const std::vector<HostRoom>& hosts)
      : groups_(groups), hosts_(hosts), work_(hosts.size()), home_(groups.size()) {
    for (const HostRoom& host : hosts) OVERLORD_CHECK(host.cores > 0, "a host has cores");
  }

  void keep(const GroupHomes& before) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto found = before.find(groups_[g].name);
      if (found == before.end()) continue;
      for (size_t h = 0; h < hosts_.size(); ++h) {
        if (hosts_[h].name == found->second) settle(g, h);
      }
    }
  }

  // The largest first: the small ones fill what is left.
  void settle_homeless() {
    std::vector<size_t> order;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!home_[g]) order.push_back(g);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return groups_[a].work > groups_[b].work; });
    for (const size_t g : order) {
      std::optional<size_t> best = calmest_for(g, /*apart=*/true);
      if (!best) best = calmest_for(g, /*apart=*/false);
      settle(g, *best);
    }
  }

  // Every move leaves the busiest host less busy and makes none as busy as it was: it comes to an
  // end.
  void level() {
    while (const std::optional<Move> move = best_move()) {
      work_[*home_[move->group]] -= groups_[move->group].work;
      settle(move->group, move->host);
    }
  }

  GroupHomes take() const {
    GroupHomes out;
    for (size_t g = 0; g < groups_.size(); ++g) out[groups_[g].name] = hosts_[*home_[g]].name;
    return out;
  }

 private:
  struct Move {
    size_t group, host;
  };

  Busy busy(size_t host, uint64_t more = 0) const {
    return {static_cast<unsigned __int128>(work_[host]) + more, hosts_[host].cores};
  }
  void settle(size_t group, size_t host) {
    home_[group] = host;
    work_[host] += groups_[group].work;
  }
  bool has_partner(size_t group, size_t host) const {
    for (size_t other = 0; other < groups_.size(); ++other) {
      if (home_[other] != host) continue;
      const std::vector<std::string>& apart = groups_[group].apart;
      if (std::find(apart.begin(), apart.end(), groups_[other].name) != apart.end()) return true;
    }
    return false;
  }
  std::optional<size_t> calmest_for(size_t group, bool apart) const {
    std::optional<size_t> best;
    for (size_t h = 0; h < hosts_.size(); ++h) {
      if (apart && has_partner(group, h)) continue;
      const uint64_t work = groups_[group].work;
      if (!best || busy(h, work) < busy(*best, work)) best = h;
    }
    return best;
  }
  std::optional<Move> best_move() const {
    size_t busiest = 0;
    for (size_t h = 1; h < hosts_.size(); ++h) {
      if (busy(busiest) < busy(h)) busiest = h;
    }
    std::optional<Move> best;
    Busy least = busy(busiest);
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (home_[g] != busiest) continue;
      const std::optional<size_t> host = calmest_for(g, /*apart=*/true);
      if (!host || *host == busiest || !(busy(*host, groups_[g].work) < least)) continue;
      least = busy(*host, groups_[g].work);
      best = Move{g, *host};
    }
    return best;
  }

  const std::vector<HomelessGroup>& groups_;
  const std::vector<HostRoom>& hosts_;
  std::vector<uint64_t> work_;               // by host
  std::vector<std::optional<size_t>> home_;  // by group
};

}  // namespace

GroupHomes home_groups(const std::vector<HomelessGroup>& groups, const std::vector<HostRoom>& hosts,
                       const GroupHomes& before) {
  OVERLORD_CHECK(!hosts.empty(), "there is a host to live on");
  Homes homes(groups, hosts);
  homes.keep(before);
  homes.settle_homeless();
  homes.level();
  GroupHomes out = homes.take();
  OVERLORD_CHECK(out.size() == groups.size(), "no two groups share a name, and each has a home");
  return out;
}

}  // namespace overlord::plan
