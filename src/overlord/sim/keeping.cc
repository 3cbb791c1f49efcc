#include "overlord/sim/keeping.h"

#include <algorithm>
#include <utility>

namespace overlord::sim {
namespace {

constexpr int64_t kLinkNs = 50'000;

}  // namespace

Keeping::Keeping(World& world, keeper::KeeperJob job, KeeperStorm storm, Kept& kept)
    : world_(world),
      clock_(world),
      job_(std::move(job)),
      storm_(std::move(storm)),
      kept_(kept),
      groups_(
          world,
          [this](const runtime::GroupPlacement& group) {
            kept_.place(group.name, group.generation);
            SimulatedLife life;
            life.over = [this, name = group.name] { kept_.over(name); };
            return life;
          },
          *this) {}

void Keeping::Groups::watch(Ended ended) {
  SimulatedGroups::watch([this, ended = std::move(ended)](const runtime::GroupEnd& end) {
    const auto& deaf = keeping_.storm_.deaf;
    if (!deaf || !deaf(keeper::Ended{end})) ended(end);
  });
}

// On a host that has just left it ends before it begins.
Status Keeping::Groups::place(const runtime::GroupPlacement& group) {
  OVERLORD_RETURN_IF_ERROR(SimulatedGroups::place(group));
  placed_elsewhere += group.host.empty() ? 0 : 1;
  if (!group.host.empty() && !keeping_.hosts_.contains(group.host)) lose_host(group.host);
  return {};
}

void Keeping::host_comes_or_goes() {
  if (comings_ >= storm_.hosts || world_.dice().below(storm_.host_rarity) != 0) return;
  ++comings_;
  const std::string host = "joined-" + std::to_string(world_.dice().below(3));
  if (hosts_.insert(host).second) {
    return say(host, keeper::Heard{host, protocol::Join{
                                             job_.job, {static_cast<uint32_t>(1 + comings_ % 3)}}});
  }
  hosts_.erase(host);
  world_.landed(Fault::kHostLeaves);
  say(host, keeper::Lost{host});
  groups_.lose_host(host);
}

void Keeping::host_speaks_of_memory() {
  if (words_ >= storm_.pressed || hosts_.empty()) return;
  if (world_.dice().below(storm_.host_rarity) != 0) return;
  ++words_;
  const std::string& host = *std::next(hosts_.begin(), world_.dice().below(hosts_.size()));
  say(host, keeper::Heard{host, protocol::HostPressed{world_.dice().below(3) > 0}});
}

void Keeping::start() {
  keeper_ = std::make_unique<keeper::Keeper>(job_, *this);
  kept_.call_again();
  for (const std::string& host : hosts_) {
    say(host, keeper::Heard{host, protocol::Join{job_.job, {2}}});
  }
  if (storm_.watch_ns > 0) watch(job_.generation);
}

void Keeping::watch(uint32_t generation) {
  world_.post_after(storm_.watch_ns, [this, generation] {
    if (!keeper_ || generation != job_.generation) return;
    keeper_->receive(keeper::Watched{});
    watch(generation);
  });
}

bool Keeping::dies() {
  if (kills_ >= storm_.kills || world_.dice().below(storm_.rarity) != 0) return false;
  ++kills_;
  world_.landed(Fault::kKeeperDies);
  ++job_.generation;
  keeper_.reset();
  if (storm_.host_dies) lose_host();
  world_.post_after(world_.dice().delay_ns(storm_.down_ns), [this] { start(); });
  return true;
}

void Keeping::lose_host() {
  world_.landed(Fault::kHostLeaves);
  for (const runtime::GroupPlacement& group : groups_.placed()) {
    if (group.name.starts_with("loaders")) groups_.kill(group.name);
  }
  kept_.planner_lost();
}

void Keeping::arrive(const runtime::Task& task) {
  if (dies()) return;
  task();
  if (dies()) return;
  host_comes_or_goes();
  host_speaks_of_memory();
}

void Keeping::on_loop(runtime::Task task) {
  world_.post_after(0, [this, task = std::move(task), generation = job_.generation] {
    if (keeper_ && generation == job_.generation) arrive(task);
  });
}

void Keeping::after(int64_t delay_ns, runtime::Task task) {
  world_.post_after(delay_ns, std::move(task));
}

void Keeping::say(const std::string& peer, keeper::Input input) {
  if (!keeper_ || (storm_.deaf && storm_.deaf(input))) return;
  int64_t& last = said_ns_[peer];
  last = std::max(last, world_.now_ns() + world_.dice().delay_ns(kLinkNs));
  world_.at(last, [this, input = std::move(input), generation = job_.generation] {
    if (!keeper_ || generation != job_.generation) return;
    arrive([&] { keeper_->receive(input); });
  });
}

void Keeping::tell(const std::string& peer, protocol::Control control) {
  // A group that has not called has no link yet; the others are there before any keeper.
  const bool group = !peer.starts_with("rank-") && peer != "planner";
  if (group && !keeper_->state().connected().contains(peer)) return;
  reach(peer, [this, peer, control = std::move(control)] { kept_.hear(peer, control); });
}

void Keeping::reach(const std::string& peer, runtime::Task arrived) {
  int64_t& last = told_ns_[peer];
  last = std::max(last, world_.now_ns() + world_.dice().delay_ns(kLinkNs));
  world_.at(last, [this, peer, arrived = std::move(arrived), generation = job_.generation] {
    uint32_t& heard = heard_[peer];
    if (heard > generation) return;
    // A link that breaks loses all that comes behind what it has lost.
    heard =
        generation != job_.generation && world_.dice().below(2) == 0 ? generation + 1 : generation;
    if (heard > generation) return;
    arrived();
  });
}

keeper::Begun Keeping::begin(const keeper::Begin&) {
  keeper::Begun out = kept_.begun();
  out.running = groups_.placed();
  return out;
}

}  // namespace overlord::sim
