// Processes: faults that are not deaths of loaders, constructors or the planner; and mutants.
#include <algorithm>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/sim/processes.h"

namespace overlord::sim {
namespace {

using protocol::Address;
using protocol::RoleKind;

constexpr int64_t kBeatNs = 1'000'000;
constexpr int64_t kDayNs = 86'400'000'000'000;
constexpr int64_t kStarvedNs = 400'000;

}  // namespace

// Something arrives: an occasion for everything that may go wrong.
void Processes::strike(const protocol::Envelope& envelope, size_t to) {
  if (processes_.size() == 1) return;
  const size_t from = sender_of(envelope).process;
  const auto one_of_them = [&] { return world_.dice().below(2) == 0 ? from : to; };
  if (world_.strikes(&weather_.freezes)) freeze(one_of_them());
  if (world_.strikes(&weather_.slow)) slow_down(one_of_them());
  if (world_.strikes(&weather_.cuts)) cut_link(from, to);
  if (world_.strikes(&weather_.jumps)) jump_clock(world_.dice().below(processes_.size() + 1));
  if (world_.strikes(&weather_.memory)) kill_largest();
  if (world_.strikes(&weather_.rank_deaths)) {
    const uint64_t rank = world_.dice().below(start_.ranks.size());
    kill_rank(home(protocol::client_address(start_.ranks[rank])));
  }
}

// --- Freezes, starves ----------------------------------------------------------------------------

void Processes::freeze(size_t index) {
  Process& process = processes_[index];
  if (!process.host || process.frozen) return;
  process.frozen = true;
  process.life->executor.stop();
  const int64_t lasts_ns = world_.dice().delay_ns(weather_.freezes.lasts_ns);
  world_.landed(Fault::kFreezes);
  world_.be_patient(world_.now_ns() + lasts_ns);
  world_.post_after(lasts_ns, [this, index, life = process.life] {
    if (processes_[index].life == life && processes_[index].frozen) thaw(index);
  });
}

void Processes::thaw(size_t index) {
  Process& process = processes_[index];
  process.frozen = false;
  process.life->executor.go_on();
  for (const runtime::Task& task : std::exchange(process.held, {})) task();
}

void Processes::slow_down(size_t index) {
  Process& process = processes_[index];
  if (!process.host) return;
  process.life->executor.starve(kStarvedNs);
  const int64_t lasts_ns = world_.dice().delay_ns(weather_.slow.lasts_ns);
  world_.landed(Fault::kSlow);
  world_.be_patient(world_.now_ns() + lasts_ns);
  world_.post_after(lasts_ns, [life = process.life] { life->executor.starve(0); });
}

// Those that run say so to the keeper; whoever is frozen does not.
void Processes::beat() {
  for (const Process& process : processes_) {
    if (!process.keeps || !process.host || process.frozen) continue;
    keeping_->say(process.name, keeper::Heard{process.name, protocol::Beat{}});
  }
  world_.post_after(kBeatNs, [this] { beat(); });
}

// --- Links ---------------------------------------------------------------------------------------

// A keeper whose last rank is gone ends the job, so the others keep their links to it.
void Processes::cut_link(size_t a, size_t b) {
  if (a == b || !processes_[a].host || !processes_[b].host) return;
  const size_t other = std::max(a, b);
  if (std::min(a, b) == 0 && !processes_[other].keeps) {
    for (size_t i = 1; i < processes_.size(); ++i) {
      if (!processes_[i].keeps && (!processes_[i].host || links_.broken(0, i))) return;
    }
  }
  links_.cut(a, b, weather_.cuts.lasts_ns);
}

// The node takes whoever it does not hear any more for dead.
void Processes::link_closed(size_t a, size_t b) {
  if (a != 0) return;
  keeping_->say(processes_[b].name, keeper::Lost{processes_[b].name});
}

// Of the planner's links: a trainer attaches again, a group is not let live even where the keeper
// that heard of it is dead. Between others whoever called calls again, and says again what the
// other side may not have heard.
void Processes::link_healed(size_t a, size_t b) {
  if (a == 0) return processes_[b].keeps ? kill(b) : call(b);
  tell_of_new_link(a, b);
  tell_of_new_link(b, a);
}

void Processes::tell_of_new_link(size_t index, size_t other) {
  Process& process = processes_[index];
  if (!process.host || weather_.mutant == Mutant::kNobodySaysAgain) return;
  std::vector<Address> there;
  for (const protocol::ProcessRoles& one : process.roster.processes) {
    if (one.name == processes_[other].name) there = one.roles;
  }
  if (there.empty()) there = processes_[other].group.roles;
  for (const Address& role : there) {
    if (role.kind == RoleKind::kClient) continue;
    process.host->peer_restarted(role, std::max(process.told[role], 1u));
  }
}

// --- Ranks, memory, clocks -----------------------------------------------------------------------

bool Processes::lives(Rank rank) const {
  return processes_.size() == 1 || processes_[home(protocol::client_address(rank))].host != nullptr;
}

// One at a time: a keeper whose last rank is gone ends the job.
void Processes::kill_rank(size_t index) {
  for (const Rank rank : start_.ranks) {
    const size_t one = home(protocol::client_address(rank));
    if (!processes_[one].host || links_.broken(0, one)) return;
  }
  Process& process = processes_[index];
  process.host->stop();
  bury(index);
  ++process.generation;
  process.state = rank_died(process.group.roles.front().index);
  world_.landed(Fault::kRankDies);
  keeping_->say(process.name, keeper::Lost{process.name});
  const int64_t down_ns = world_.dice().delay_ns(weather_.rank_deaths.lasts_ns);
  world_.be_patient(world_.now_ns() + down_ns);
  world_.post_after(down_ns, [this, index] {
    processes_[index].dead = false;
    call(index);
  });
}

void Processes::kill_largest() {
  std::optional<size_t> largest;
  uint64_t most = 0;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (!processes_[i].keeps || !processes_[i].host) continue;
    const uint64_t held = processes_[i].host->budget().used_bytes.load();
    if (largest && held <= most) continue;
    largest = i;
    most = held;
  }
  if (!largest) return;
  world_.landed(Fault::kMemoryShort);
  kill(*largest);
}

// The keeper's is behind those of all processes.
void Processes::jump_clock(size_t index) {
  const bool far = world_.dice().below(2) == 0;
  const bool back = world_.dice().below(2) == 0;
  const auto by_ns = static_cast<int64_t>(
      world_.dice().below(static_cast<uint64_t>(far ? kDayNs : weather_.jumps.lasts_ns)));
  world_.landed(Fault::kClockJumps);
  if (index == processes_.size()) return keeping_->clock().jump(back ? -by_ns : by_ns);
  if (processes_[index].life != nullptr) processes_[index].life->clock.jump(back ? -by_ns : by_ns);
}

// --- Mutants -------------------------------------------------------------------------------------

// True: nobody gets it.
bool Processes::mutate(protocol::Envelope* envelope) {
  const Mutant mutant = weather_.mutant;
  protocol::Message& message = envelope->message;
  if (mutant == Mutant::kRolesHeedEarlierTerms && envelope->from.kind == RoleKind::kPlanner) {
    envelope->versions.generation = processes_[0].generation;
  }
  if (mutant == Mutant::kNobodyPromises && std::holds_alternative<protocol::TermOpened>(message) &&
      envelope->to.kind != RoleKind::kClient) {
    model::Versions versions = envelope->versions;
    const uint32_t term = versions.generation;
    versions.generation = std::max(processes_[0].told[envelope->to], 1u);
    seams_.transport->send(
        {versions, envelope->to, envelope->from, protocol::TermPromised{term, 0, {}}});
    return true;
  }
  if (auto* ready = std::get_if<protocol::StepReady>(&message)) {
    std::vector<model::MicrobatchPtr>& last = last_steps_[envelope->to];
    const std::vector<model::MicrobatchPtr> now = ready->microbatches;
    if (mutant == Mutant::kStepTwice && ready->step == 3 && last.size() == now.size()) {
      ready->microbatches = last;
    }
    if (mutant == Mutant::kOtherBytes && ready->step == 3) {
      auto other = std::make_shared<model::Microbatch>(*now.front());
      other->digest = chain(other->digest, other->digest);
      ready->microbatches.front() = std::move(other);
    }
    last = now;
  }
  auto* failed = std::get_if<protocol::StreamFailed>(&message);
  if (mutant == Mutant::kOneEndsEarlier && failed != nullptr && failed->step > 1 &&
      envelope->to == protocol::constructor_address(0)) {
    failed->step -= 2;
  }
  auto* done = std::get_if<protocol::Acknowledged>(&message);
  if (mutant == Mutant::kPlansTooFarAhead && done != nullptr &&
      envelope->to.kind == RoleKind::kPlanner && done->acknowledged % 2 == 0) {
    ++done->acknowledged;
  }
  return false;
}

}  // namespace overlord::sim
