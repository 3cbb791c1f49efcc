#include "overlord/plan/partition/group_homes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/plan/partition/cores_text.h"

namespace overlord::plan {
namespace {

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
  // All that may live on a host: its cores, and its part of what goes beyond all cores.
  uint64_t bears(const HostRoom& host) const {
    const uint64_t own = kMilli * host.cores;
    if (suffices()) return own;
    return static_cast<uint64_t>(static_cast<unsigned __int128>(work) * own / (near + far));
  }
  // How much of `left` of a host's cores is to be used, beside the others; 0: none, as long as
  // others do.
  uint64_t room(const HostRoom& host, uint64_t left) const {
    if (host.ranks || near == 0 || !suffices()) return left;
    if (work <= near) return 0;
    const auto beyond = static_cast<unsigned __int128>(work - near) * left;
    return std::min(left, std::max<uint64_t>(1, static_cast<uint64_t>(beyond / far)));
  }
  uint64_t room(const HostRoom& host) const { return room(host, kMilli * host.cores); }

  uint64_t near = 0, far = 0;  // cores of hosts with ranks, and of those without
  uint64_t work = 0;
};

size_t named_in(const std::vector<std::string>& sources, const std::vector<std::string>& names) {
  return static_cast<size_t>(std::count_if(sources.begin(), sources.end(), [&](const auto& one) {
    return std::find(names.begin(), names.end(), one) != names.end();
  }));
}

// By host. Where none has all files of the group all may have it.
std::vector<bool> hosts_that_may(const HomelessGroup& group, const std::vector<HostRoom>& hosts) {
  std::vector<bool> out;
  for (const HostRoom& host : hosts) out.push_back(named_in(group.sources, host.lacks) == 0);
  if (std::find(out.begin(), out.end(), true) == out.end()) out.assign(hosts.size(), true);
  return out;
}

// Those of them that hold most of its files on their own disks; none, where all do alike.
std::vector<bool> hosts_near_files(const HomelessGroup& group, const std::vector<HostRoom>& hosts,
                                   const std::vector<bool>& may) {
  std::vector<size_t> held(hosts.size(), 0);
  size_t most = 0;
  for (size_t h = 0; h < hosts.size(); ++h) {
    held[h] = may[h] ? named_in(group.sources, hosts[h].holds) : 0;
    most = std::max(most, held[h]);
  }
  std::vector<bool> out(hosts.size(), false);
  bool all = true;
  for (size_t h = 0; h < hosts.size(); ++h) {
    out[h] = may[h] && most > 0 && held[h] == most;
    all = all && (out[h] || !may[h]);
  }
  if (all) out.assign(hosts.size(), false);
  return out;
}

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
        home_(groups.size()),
        stays_(groups.size(), false) {
    const Demand demand(groups, hosts);
    for (const HostRoom& host : hosts) room_.push_back(demand.bears(host));
    for (const HomelessGroup& group : groups) {
      may_.push_back(hosts_that_may(group, hosts));
      near_.push_back(hosts_near_files(group, hosts, may_.back()));
    }
  }

  // Near their files, as far as there is room; who lives there already comes first, then the
  // largest. What is left of the hosts is for the others.
  void settle_near_files(const GroupHomes& before) {
    for (const size_t g : by_size()) {
      const auto found = before.find(groups_[g].name);
      if (found == before.end()) continue;
      const auto fits = [&](size_t h) { return hosts_[h].name == found->second && has_room(g, h); };
      if (const auto host = calmest_for(g, fits)) stay(g, *host);
    }
    for (const size_t g : by_size()) {
      if (home_[g]) continue;
      if (const auto host = calmest_for(g, [&](size_t h) { return has_room(g, h); })) {
        stay(g, *host);
      }
    }
    std::vector<HomelessGroup> rest;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!stays_[g]) rest.push_back(groups_[g]);
    }
    leave_room_for(rest);
  }

  void keep(const GroupHomes& before) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto found = before.find(groups_[g].name);
      if (found == before.end()) continue;
      for (size_t h = 0; h < hosts_.size(); ++h) {
        if (hosts_[h].name == found->second && !stays_[g] && may_[g][h]) settle(g, h);
      }
    }
  }

  // Where a host cannot bear what it has, the largest goes.
  void relieve() {
    for (size_t h = 0; h < hosts_.size(); ++h) {
      while (count_[h] > hosts_[h].most) {
        std::optional<size_t> largest;
        for (size_t g = 0; g < groups_.size(); ++g) {
          if (home_[g] != h || stays_[g]) continue;
          if (!largest || groups_[*largest].millicores < groups_[g].millicores) largest = g;
        }
        leave(*largest);
      }
    }
  }

  // The largest first: the small ones fill what is left.
  void settle_homeless() {
    for (const size_t g : by_size()) {
      if (home_[g]) continue;
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
      if (stays_[g] || !has_partner(g, *home_[g])) continue;
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
  std::vector<size_t> by_size() const {
    std::vector<size_t> order(groups_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return groups_[a].millicores > groups_[b].millicores;
    });
    return order;
  }
  // One group has room wherever there is none.
  bool has_room(size_t group, size_t host) const {
    if (!near_[group][host] || !bears(host) || has_partner(group, host)) return false;
    return count_[host] == 0 || work_[host] + groups_[group].millicores <= room_[host];
  }
  void stay(size_t group, size_t host) {
    settle(group, host);
    stays_[group] = true;
  }
  // Of what those that stay have left; where that is nothing at all, of everything.
  void leave_room_for(const std::vector<HomelessGroup>& rest) {
    Demand demand(rest, hosts_);
    demand.near = demand.far = 0;
    std::vector<uint64_t> left;
    for (size_t h = 0; h < hosts_.size(); ++h) {
      left.push_back(room_[h] - std::min(room_[h], std::exchange(work_[h], 0)));
      (hosts_[h].ranks ? demand.near : demand.far) += left[h];
    }
    if (demand.near + demand.far == 0) {
      demand = Demand(rest, hosts_);
      left = room_;
    }
    for (size_t h = 0; h < hosts_.size(); ++h) room_[h] = demand.room(hosts_[h], left[h]);
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
      if (may_[group][h] && allowed(h) && (!best || busy(h, work) < busy(*best, work))) best = h;
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
      if (stays_[g] || room_[*home_[g]] > 0) continue;
      if (const std::optional<size_t> host = needed_for(g)) return Move{g, *host};
    }
    std::optional<size_t> busiest;
    for (size_t h = 0; h < hosts_.size(); ++h) {
      if (room_[h] > 0 && (!busiest || busy(*busiest) < busy(h))) busiest = h;
    }
    if (!busiest) return std::nullopt;
    std::optional<Move> best;
    Busy least = busy(*busiest);
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (home_[g] != busiest || stays_[g]) continue;
      const std::optional<size_t> host = needed_for(g);
      if (!host || host == busiest || !(busy(*host, groups_[g].millicores) < least)) continue;
      least = busy(*host, groups_[g].millicores);
      best = Move{g, *host};
    }
    return best;
  }

  const std::vector<HomelessGroup>& groups_;
  const std::vector<HostRoom>& hosts_;
  std::vector<uint64_t> room_, work_;          // by host
  std::vector<uint32_t> count_;                // of groups there
  std::vector<std::optional<size_t>> home_;    // by group
  std::vector<bool> stays_;                    // near its files: in nobody's `work_`
  std::vector<std::vector<bool>> may_, near_;  // by group and host
};

// "; not on joined-a, which lacks files of web"
std::string lacking_text(const HomelessGroup& group, const std::vector<HostRoom>& hosts) {
  std::string out;
  for (const HostRoom& host : hosts) {
    std::string names;
    for (const std::string& source : group.sources) {
      if (named_in({source}, host.lacks) > 0) names += (names.empty() ? "" : ", ") + source;
    }
    if (names.empty()) continue;
    const std::string name = host.name.empty() ? "the lead's host" : host.name;
    out += "; not on " + name + ", which lacks the files of " + names;
  }
  return out;
}

}  // namespace

GroupHomes home_groups(const std::vector<HomelessGroup>& groups, const std::vector<HostRoom>& hosts,
                       const GroupHomes& before) {
  OVERLORD_CHECK(!hosts.empty(), "there is a host to live on");
  Homes homes(groups, hosts);
  homes.settle_near_files(before);
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
    const std::vector<bool> may = hosts_that_may(group, hosts);
    const auto here = static_cast<size_t>(host - hosts.begin());
    if (hosts_near_files(group, hosts, may)[here]) {
      why = "its files lie on disks of this host";
    } else if (!demand.suffices()) {
      why = "dealt by cores: loaders can use " + work + ", all hosts have " +
            cores_text(demand.near + demand.far);
    } else if (host->ranks || demand.near == 0) {
      why = "spare cores of hosts with ranks come first: " + near + ", loaders can use " + work;
    } else if (demand.room(*host) > 0) {
      why = "hosts with ranks have " + near + " to spare, loaders can use " + work;
    } else if (!group.apart.empty()) {
      why = "apart from what it stands by for, or what stands by for it";
    } else {
      why = "where there is room";
    }
    why += lacking_text(group, hosts);
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
