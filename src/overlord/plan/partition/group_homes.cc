#include "overlord/plan/partition/group_homes.h"

#include <algorithm>
#include <optional>

#include "overlord/base/check.h"

namespace overlord::plan {
namespace {

constexpr uint64_t kMilli = 1000;
constexpr size_t kConstructorsPerCore = 8;

// Work for each core. Compared by cross multiplication: 2^32 groups of 2^32 would not overflow.
struct Busy {
  unsigned __int128 work = 0;
  uint64_t room = 1;

  friend bool operator<(const Busy& a, const Busy& b) { return a.work * b.room < b.work * a.room; }
};

// What there is and what is asked for, in thousandths of a core.
struct Demand {
  Demand(const std::vector<HomelessGroup>& groups, const std::vector<HostRoom>& hosts) {
    for (const HostRoom& host : hosts) {
      OVERLORD_CHECK(host.cores > 0, "a host has cores");
      (host.ranks ? near : far) += kMilli * host.cores;
    }
    for (const HomelessGroup& group : groups) work += group.millicores;
  }
  bool suffices() const { return work <= near + far; }
  // How much of a host's cores is to be used, beside the others; 0: none, as long as others do.
  uint64_t room(const HostRoom& host) const {
    if (host.ranks || near == 0 || !suffices()) return kMilli * host.cores;
    if (work <= near) return 0;
    const auto beyond = static_cast<unsigned __int128>(work - near) * kMilli;
    return host.cores * std::max<uint64_t>(1, static_cast<uint64_t>(beyond / far));
  }

  uint64_t near = 0, far = 0;  // cores of hosts with ranks, and of those without
  uint64_t work = 0;
};

bool apart_from(const HomelessGroup& group, const HomelessGroup& other) {
  return std::find(group.apart.begin(), group.apart.end(), other.name) != group.apart.end();
}

class Homes {
 public:
  Homes(const std::vector<HomelessGroup>& groups, const std::vector<HostRoom>& hosts)
      : groups_(groups),
        hosts_(hosts),
        work_(hosts.size()),
        count_(hosts.size()),
        home_(groups.size()) {
    const Demand demand(groups, hosts);
    for (const HostRoom& host : hosts) room_.push_back(demand.room(host));
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

  // Where a host cannot bear what it has, the largest goes.
  void relieve() {
    for (size_t h = 0; h < hosts_.size(); ++h) {
      while (count_[h] > hosts_[h].most) {
        std::optional<size_t> largest;
        for (size_t g = 0; g < groups_.size(); ++g) {
          if (home_[g] != h) continue;
          if (!largest || groups_[*largest].millicores < groups_[g].millicores) largest = g;
        }
        leave(*largest);
      }
    }
  }

  // The largest first: the small ones fill what is left.
  void settle_homeless() {
    std::vector<size_t> order;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!home_[g]) order.push_back(g);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return groups_[a].millicores > groups_[b].millicores;
    });
    for (const size_t g : order) {
      std::optional<size_t> best = apart_for(g);
      if (!best) best = calmest_for(g, [&](size_t h) { return room_[h] > 0 && bears(h); });
      if (!best) best = calmest_for(g, [&](size_t h) { return bears(h); });
      if (!best) best = calmest_for(g, [](size_t) { return true; });
      settle(g, *best);
    }
  }

  // Every move leaves fewer pairs together.
  void separate() {
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!has_partner(g, *home_[g])) continue;
      if (const std::optional<size_t> host = apart_for(g)) settle(g, *host);
    }
  }

  // Every move leaves a host that is not needed, or leaves the busiest host less busy and makes
  // none as busy as it was: it comes to an end.
  void level() {
    while (const std::optional<Move> move = best_move()) settle(move->group, move->host);
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
    return {static_cast<unsigned __int128>(work_[host]) + more, std::max<uint64_t>(1, room_[host])};
  }
  void leave(size_t group) {
    if (!home_[group]) return;
    work_[*home_[group]] -= groups_[group].millicores;
    --count_[*home_[group]];
    home_[group].reset();
  }
  void settle(size_t group, size_t host) {
    leave(group);
    home_[group] = host;
    work_[host] += groups_[group].millicores;
    ++count_[host];
  }
  bool bears(size_t host) const { return count_[host] < hosts_[host].most; }
  bool has_partner(size_t group, size_t host) const {
    for (size_t other = 0; other < groups_.size(); ++other) {
      if (home_[other] == host && apart_from(groups_[group], groups_[other])) return true;
    }
    return false;
  }
  template <typename Allowed>
  std::optional<size_t> calmest_for(size_t group, const Allowed& allowed) const {
    std::optional<size_t> best;
    const uint64_t work = groups_[group].millicores;
    for (size_t h = 0; h < hosts_.size(); ++h) {
      if (allowed(h) && (!best || busy(h, work) < busy(*best, work))) best = h;
    }
    return best;
  }
  std::optional<size_t> needed_for(size_t group) const {
    return calmest_for(
        group, [&](size_t h) { return room_[h] > 0 && bears(h) && !has_partner(group, h); });
  }
  // A host that is not needed is better than one that it would lose together with its partner.
  std::optional<size_t> apart_for(size_t group) const {
    if (const std::optional<size_t> host = needed_for(group)) return host;
    return calmest_for(group, [&](size_t h) { return bears(h) && !has_partner(group, h); });
  }
  std::optional<Move> best_move() const {
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (room_[*home_[g]] > 0) continue;
      if (const std::optional<size_t> host = needed_for(g)) return Move{g, *host};
    }
    std::optional<size_t> busiest;
    for (size_t h = 0; h < hosts_.size(); ++h) {
      if (room_[h] > 0 && (!busiest || busy(*busiest) < busy(h))) busiest = h;
    }
    std::optional<Move> best;
    Busy least = busy(*busiest);
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (home_[g] != busiest) continue;
      const std::optional<size_t> host = needed_for(g);
      if (!host || host == busiest || !(busy(*host, groups_[g].millicores) < least)) continue;
      least = busy(*host, groups_[g].millicores);
      best = Move{g, *host};
    }
    return best;
  }

  const std::vector<HomelessGroup>& groups_;
  const std::vector<HostRoom>& hosts_;
  std::vector<uint64_t> room_, work_;        // by host
  std::vector<uint32_t> count_;              // of groups there
  std::vector<std::optional<size_t>> home_;  // by group
};

std::string cores_text(uint64_t millicores) {
  const uint64_t tenths = (millicores + kMilli / 20) / (kMilli / 10);
  std::string out = std::to_string(tenths / 10);
  if (tenths % 10 != 0) out += "." + std::to_string(tenths % 10);
  return out + (tenths == 10 ? " core" : " cores");
}

}  // namespace

GroupHomes home_groups(const std::vector<HomelessGroup>& groups, const std::vector<HostRoom>& hosts,
                       const GroupHomes& before) {
  OVERLORD_CHECK(!hosts.empty(), "there is a host to live on");
  Homes homes(groups, hosts);
  homes.keep(before);
  homes.relieve();
  homes.settle_homeless();
  homes.separate();
  homes.level();
  GroupHomes out = homes.take();
  OVERLORD_CHECK(out.size() == groups.size(), "no two groups share a name, and each has a home");
  return out;
}

std::map<std::string, std::string> home_reasons(const std::vector<HomelessGroup>& groups,
                                                const std::vector<HostRoom>& hosts,
                                                const GroupHomes& homes) {
  const Demand demand(groups, hosts);
  const std::string near = cores_text(demand.near), work = cores_text(demand.work);
  std::map<std::string, std::string> out;
  for (const HomelessGroup& group : groups) {
    const auto home = homes.find(group.name);
    if (home == homes.end()) continue;  // it has come since they were found
    const auto host = std::find_if(hosts.begin(), hosts.end(),
                                   [&](const HostRoom& one) { return one.name == home->second; });
    OVERLORD_CHECK(host != hosts.end(), "a home is one of the hosts");
    std::string& why = out[group.name];
    if (!demand.suffices()) {
      why = "dealt by cores: loaders can use " + work + ", all hosts have " +
            cores_text(demand.near + demand.far);
    } else if (host->ranks || demand.near == 0) {
      why = "spare cores of hosts with ranks come first: " + near + ", loaders can use " + work;
    } else if (demand.room(*host) > 0) {
      why = "hosts with ranks have " + near + " to spare, loaders can use " + work;
    } else {
      why = "apart from what it stands by for, or what stands by for it";
    }
  }
  return out;
}

uint32_t spare_cores(uint32_t cores, size_t constructors, bool plans) {
  const size_t taken =
      (plans ? 1 : 0) + (constructors + kConstructorsPerCore - 1) / kConstructorsPerCore;
  return taken < cores ? cores - static_cast<uint32_t>(taken) : 1;
}

std::vector<uint64_t> slot_millicores(const std::vector<model::Source>& sources) {
  uint64_t workers = 0, measured = 0;
  bool all = true;
  for (const model::Source& source : sources) {
    workers += uint64_t{source.slots()} * source.workers;
    measured += source.measured.millicores();
    all = all && source.measured.millicores() > 0;
  }
  std::vector<uint64_t> out;
  for (const model::Source& source : sources) {
    const auto all_slots = static_cast<unsigned __int128>(workers) * kMilli *
                           source.measured.millicores() / std::max<uint64_t>(1, measured);
    const uint64_t own = static_cast<uint64_t>(all_slots) / std::max(1u, source.slots());
    out.push_back(all ? std::max<uint64_t>(1, own) : kMilli * source.workers);
  }
  return out;
}

}  // namespace overlord::plan
