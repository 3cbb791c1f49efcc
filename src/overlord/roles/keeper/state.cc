#include "overlord/roles/keeper/state.h"

#include <algorithm>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/roles/keeper/hosts.h"
#include "overlord/roles/keeper/peer_names.h"

namespace overlord::keeper {
namespace {

constexpr size_t kNotesKept = 10'000;  // rows found bad, for ranks that attach later
constexpr size_t kLostHostsKept = 16;
// A keeper that starts anew does not know how often those before it have restarted a group.
constexpr uint32_t kGenerationsPerKeeper = 1 << 16;

}  // namespace

KeeperState::KeeperState(const KeeperJob& job)
    : job_(job),
      book_(job.expected(), job.job, job.begun),
      settled_(!job.comes_again),
      first_generation_(1 + (job.generation - 1) * kGenerationsPerKeeper) {}

struct KeeperState::Change {
  KeeperState& state;

  Serving& serving() const {
    OVERLORD_CHECK(state.serving_.has_value(), "an attempt is served");
    return *state.serving_;
  }

  void operator()(const PeerConnected& e) const {
    OVERLORD_CHECK(!e.name.empty() && e.generation > 0, "who connects has said who it is");
    state.connected_[e.name] = e.generation;
    state.wires_[e.name] = e.wire;
  }
  void operator()(const PeerLost& e) const { state.connected_.erase(e.name); }
  void operator()(const TrainerAttached& e) const { state.book_.attach(e.peer, e.attach); }
  void operator()(const TrainerLeft& e) const {
    state.book_.leave(e.peer);
    if (state.serving_) state.serving_->unwelcomed.erase(e.peer);
  }
  void operator()(const AttachWaits& e) const {
    OVERLORD_CHECK(state.book_.opens_again(e.attach), "those of another start wait for nobody");
    OVERLORD_CHECK(!state.over_ && !state.failed_, "what waits is served some time");
    state.waiting_[e.peer] = e.attach;
  }
  void operator()(const WaiterLeft& e) const { state.waiting_.erase(e.peer); }
  void operator()(const WaitingOver&) const { state.waiting_.clear(); }
  void operator()(const Settled&) const { state.settled_ = true; }
  void operator()(const LeadAnswered& e) const {
    OVERLORD_CHECK(!state.job_.leads, "a keeper that leads follows nobody");
    state.lead_ = e.welcome;
  }
  void operator()(const LeadLost&) const {
    OVERLORD_CHECK(!state.job_.leads && state.serving_, "who follows is served by a lead");
    OVERLORD_CHECK(!state.lead_missing_, "what is lost already is not lost again");
    state.lead_missing_ = true;
    ++state.lead_losses_;
  }
  void operator()(const LeadBack& e) const {
    OVERLORD_CHECK(state.lead_missing_, "a lead comes back that was lost");
    OVERLORD_CHECK(e.welcome.run == serving().run && e.welcome.term > serving().term,
                   "the run goes on in a later term");
    state.lead_missing_ = false;
    state.lead_ = e.welcome;
    serving().term = e.welcome.term;
  }
  void operator()(const RosterHeard& e) const { state.elsewhere_[e.peer] = e.roster; }
  void operator()(const RowHeard& e) const {
    if (state.notes_.size() < kNotesKept) state.notes_.try_emplace(e.note.id, e.note);
  }
  void operator()(const ServingBegun&) const {
    OVERLORD_CHECK(!state.serving_ && state.book_.serving(), "an attempt is served once, by all");
    OVERLORD_CHECK(!state.over_ && !state.failed_, "nothing begins after the end");
    state.ever_served_ = true;
    std::vector<Rank> local = state.local();
    std::vector<protocol::ProcessRoles> groups = groups_for(state.job_, local);
    protocol::HostGift gives = state.job_.gives;
    if (state.job_.cores > 0) {
      gives.cores = plan::spare_cores(state.job_.cores, constructors_of(groups), state.job_.leads);
    }
    for (protocol::ProcessRoles& group : groups) group.generation = state.first_generation_;
    state.serving_ = Serving{Supervisor(std::move(groups), state.job_.supervision),
                             {},
                             {},
                             {},
                             1,
                             false,
                             {},
                             {},
                             {},
                             false,
                             false,
                             false,
                             {},
                             std::move(local),
                             gives};
  }
  void operator()(const ServingPrepared& e) const {
    OVERLORD_CHECK(!serving().welcomed, "trainers are welcomed to what is prepared");
    OVERLORD_CHECK(e.term > 0, "terms are counted from 1");
    OVERLORD_CHECK(state.book_.run().empty() || e.run == state.book_.run(),
                   "ranks that were served before go on with their run");
    serving().state = e.state;
    serving().versions = e.versions;
    serving().run = e.run;
    serving().term = e.term;
    if (!e.run.empty()) state.book_.welcomed(e.run);
  }
  void operator()(const MissingGone&) const {
    OVERLORD_CHECK(!state.serving_, "an attempt that is served has its ranks");
    state.book_.go_on_without_missing();
  }
  void operator()(const ServingStopped&) const {
    state.first_generation_ =
        std::max(state.first_generation_, next_generation(serving().supervisor.groups()));
    state.lead_missing_ = false;
    state.elsewhere_.clear();  // the next attempt has others, and finds bad rows anew
    state.notes_.clear();
    state.serving_.reset();
  }
  void operator()(const TrainersWelcomed&) const {
    OVERLORD_CHECK(!serving().welcomed, "trainers are welcomed once");
    serving().welcomed = true;
  }
  void operator()(const FollowerWelcomed& e) const {
    OVERLORD_CHECK(state.job_.leads, "only a lead has followers");
    const bool first = serving().followers.insert(e.peer).second;
    OVERLORD_CHECK(first, "a follower is welcomed once");
  }
  void operator()(const GroupAdopted& e) const { serving().supervisor.adopt(e.name, e.generation); }
  void operator()(const HostJoined& e) const {
    OVERLORD_CHECK(state.job_.leads && e.gives.cores > 0, "hosts join a lead, with what they have");
    const uint32_t number = e.rank ? *e.rank : kHostWithoutRanks + ++state.joined_;
    state.hosts_.insert_or_assign(e.peer, JoinedHost{e.gives, number, e.rank.has_value()});
  }
  void operator()(const HostLeft& e) const {
    state.hosts_.erase(e.peer);
    if (!e.lost) return;
    std::vector<std::string>& lost = state.lost_hosts_;
    if (lost.size() == kLostHostsKept) lost.erase(lost.begin());
    lost.push_back(e.peer);
  }
  void operator()(const HostBears& e) const {
    OVERLORD_CHECK(state.hosts_.contains(e.peer), "a host that has joined");
    state.hosts_.at(e.peer).most = e.most;
  }
  void operator()(const GroupsHomed& e) const {
    for (const auto& [name, host] : e.homes) {
      OVERLORD_CHECK(serving().supervisor.find(name) != nullptr, "a group of this job has a home");
      OVERLORD_CHECK(host.empty() || state.hosts_.contains(host),
                     "a home is on a host that is here");
    }
    for (const auto& [name, host] : e.homes) serving().homes[name].wanted = host;
  }
  void operator()(const GroupMoved& e) const { serving().supervisor.move(e.name); }
  void operator()(const GroupPlaced& e) const {
    serving().supervisor.placed(e.name, e.now_ns);
    const auto home = serving().homes.find(e.name);
    OVERLORD_CHECK(home != serving().homes.end() || e.host.empty(), "who stays lives here");
    if (home != serving().homes.end()) home->second.lives = e.host;
  }
  void operator()(const GroupHeard& e) const { serving().supervisor.heard(e.word, e.now_ns); }
  void operator()(const GroupCondemned& e) const { serving().supervisor.condemn(e.name); }
  void operator()(const GroupEnded& e) const {
    const Supervisor::Decision decision = serving().supervisor.ended(e.end, e.now_ns);
    OVERLORD_CHECK(decision.restart.has_value(), "what has ended for good is given up instead");
    serving().taken.erase(e.end.name);
    state.connected_.erase(e.end.name);
    state.wires_.erase(e.end.name);
  }
  void operator()(const SlotPromoted& e) const { serving().supervisor.promote(e.promotion); }
  void operator()(const RoleRetired& e) const {
    serving().retired = true;
    serving().supervisor.remove_role(e.role);
  }
  void operator()(const TreeBegun& e) const {
    Serving& now = serving();
    OVERLORD_CHECK(now.trees.empty() || now.trees.back().version < e.placed.tree.version,
                   "trees come in their order");
    for (protocol::ProcessRoles group : e.placed.groups) {
      group.generation = state.first_generation_;
      now.supervisor.add_roles(group);
    }
    const protocol::TreeTold& tree = e.placed.tree;
    now.awaited.clear();
    if (tree.again && !e.journalled) {
      const std::vector<Rank>& ranks = tree.ranks.empty() ? state.job_.ranks : tree.ranks;
      now.awaited = {ranks.begin(), ranks.end()};
    }
    now.trees.push_back(tree);
    now.rolling = true;
    now.trainers_told = false;
  }
  void operator()(const TreeHeld& e) const {
    uint32_t& known = serving().taken[e.peer];
    known = std::max(known, e.version);
    const auto trainer = state.book_.attached().find(e.peer);
    if (trainer == state.book_.attached().end()) return;
    if (known < serving().trees.back().version) return;
    for (const Rank rank : trainer->second.ranks) serving().awaited.erase(rank);
  }
  void operator()(const WelcomeWaits& e) const {
    OVERLORD_CHECK(serving().rolling && !serving().trainers_told, "it waits for a tree");
    serving().unwelcomed.insert(e.peer);
  }
  void operator()(const TreeToldToTrainers&) const {
    OVERLORD_CHECK(serving().rolling && state.lacking_tree(state.processes()).empty(),
                   "trainers hear of a tree when its constructors are there");
    serving().trainers_told = true;
    serving().unwelcomed.clear();
  }
  void operator()(const TreeDone&) const {
    OVERLORD_CHECK(serving().rolling && state.lacking_tree(state.trainers()).empty(),
                   "a tree is planned for when everybody knows it");
    serving().rolling = false;
  }
  void operator()(const PartingBegun& e) const {
    OVERLORD_CHECK(!state.parting_, "the last rank leaves once");
    OVERLORD_CHECK(state.book_.attached().empty(), "nobody parts while a rank is there");
    state.parting_ = e.unheard;
    ++state.partings_;
  }
  void operator()(const LastWordsHeard& e) const {
    OVERLORD_CHECK(state.parting_ && state.parting_->contains(e.peer),
                   "its last words are awaited");
    state.parting_->erase(e.peer);
  }
  void operator()(const Parted&) const {
    OVERLORD_CHECK(state.parting_.has_value(), "one parts who was about to");
    state.parting_.reset();
  }
  void operator()(const GaveUp& e) const {
    OVERLORD_CHECK(!e.why.ok() && !state.failed_, "an attempt fails once, for a reason");
    state.failed_.emplace(e.why, e.attempt, state.job_.expected());
  }
  void operator()(const FailureTold& e) const {
    OVERLORD_CHECK(state.failed_.has_value(), "only a failure is told");
    state.failed_->told(e.ranks);
  }
  void operator()(const EarlierFailureTold& e) const {
    OVERLORD_CHECK(state.earlier_.has_value(), "only a failure is told");
    state.earlier_->told(e.ranks);
  }
  void operator()(const AttemptForgotten&) const {
    if (state.failed_) {
      state.earlier_ = std::exchange(state.failed_, std::nullopt);
      ++state.failures_;
    }
    state.book_.begin_anew();
  }
  void operator()(const FailureForgotten&) const { state.earlier_.reset(); }
  void operator()(const KeeperOver&) const {
    OVERLORD_CHECK(!state.over_, "a keeper ends once");
    state.over_ = true;
  }
};

void KeeperState::apply(const Event& event) { std::visit(Change{*this}, event); }

bool KeeperState::connected(const protocol::ProcessRoles& group) const {
  const auto found = connected_.find(group.name);
  return found != connected_.end() && found->second == group.generation;
}

bool KeeperState::lives(const protocol::ProcessRoles& group) const {
  return connected(group) && serving_ && !serving_->supervisor.condemned(group.name);
}

std::vector<Promotion> KeeperState::promotions_from(const std::string& lost) const {
  OVERLORD_CHECK(serving_.has_value(), "a keeper that serves has groups to lose");
  return promotions(serving_->supervisor.groups(), lost,
                    [this](const protocol::ProcessRoles& group) { return lives(group); });
}

Protection KeeperState::protection() const {
  if (!serving_) return {};
  return keeper::protection(serving_->supervisor.groups(),
                            [this](const auto& group) { return lives(group); });
}

plan::GroupHomes KeeperState::Serving::wanted() const {
  plan::GroupHomes out;
  for (const auto& [name, home] : homes) out[name] = home.wanted;
  return out;
}

const std::string& KeeperState::host_of(const std::string& group) const {
  static const std::string kHere;
  const auto home = serving_->homes.find(group);
  return home != serving_->homes.end() && home->second.lives ? *home->second.lives : kHere;
}

std::vector<Rank> KeeperState::local() const {
  if (!job_.leads || job_.alone) return job_.local;
  std::set<Rank> here(job_.came_before.begin(), job_.came_before.end()), elsewhere;
  for (const auto& [peer, trainer] : book_.attached()) {
    (is_follower(peer) ? elsewhere : here).insert(trainer.ranks.begin(), trainer.ranks.end());
  }
  std::vector<Rank> out;
  for (const Rank rank : job_.local) {
    if (here.contains(rank) && !elsewhere.contains(rank)) out.push_back(rank);
  }
  return out;
}

HostRosters KeeperState::rosters() const {
  HostRosters out{job_.host(), {}, elsewhere_};
  if (!serving_) return out;
  out.own.term = serving_->term;
  out.own.processes = serving_->supervisor.groups();
  for (protocol::ProcessRoles& process : out.own.processes) {
    const auto joined = hosts_.find(host_of(process.name));
    process.host = joined == hosts_.end() ? out.host : joined->second.number;
    const auto wire = wires_.find(process.name);
    if (wire != wires_.end()) process.wire = wire->second;
  }
  return out;
}

std::vector<std::string> KeeperState::processes() const {
  std::vector<std::string> out;
  if (!serving_) return out;
  for (const protocol::ProcessRoles& group : serving_->supervisor.groups()) {
    out.push_back(group.name);
  }
  return out;
}

std::vector<std::string> KeeperState::trainers() const {
  std::vector<std::string> out;
  for (const auto& [peer, trainer] : book_.attached()) out.push_back(peer);
  return out;
}

std::vector<std::string> KeeperState::lacking_tree(const std::vector<std::string>& peers) const {
  OVERLORD_CHECK(serving_ && !serving_->trees.empty(), "there is a tree to know");
  std::vector<std::string> out;
  for (const std::string& peer : peers) {
    const auto found = serving_->taken.find(peer);
    const uint32_t known = found == serving_->taken.end() ? 0 : found->second;
    if (known < serving_->trees.back().version) out.push_back(peer);
  }
  return out;
}

bool KeeperState::begin_with_a_tree(const std::vector<Rank>& ranks) const {
  if (!serving_ || serving_->trees.empty()) return false;
  const std::vector<Rank>& there = serving_->trees.back().ranks;
  return std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) {
    const bool has_place =
        there.empty() || std::find(there.begin(), there.end(), rank) != there.end();
    return !has_place || serving_->awaited.contains(rank);
  });
}

std::string KeeperState::tree_waits() const {
  if (!serving_ || !serving_->rolling) return {};
  std::vector<std::string> peers = lacking_tree(processes());
  if (peers.empty()) peers = lacking_tree(trainers());
  std::string text;
  for (const std::string& peer : peers) text += (text.empty() ? "" : ", ") + peer;
  return "the mesh of step " + std::to_string(serving_->trees.back().first_step) + " waits for " +
         text;
}

}  // namespace overlord::keeper
