// KeeperState: what the keeper of a job on one host knows: who has attached, which groups of roles
// live, which trees there are, what has failed. Changed only by apply(); holds no thread, clock or
// socket. Nothing of it is durable: a keeper that starts anew is told by those who live.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/base/status.h"
#include "overlord/plan/partition/group_homes.h"
#include "overlord/protocol/control.h"
#include "overlord/roles/keeper/attach_book.h"
#include "overlord/roles/keeper/failure_book.h"
#include "overlord/roles/keeper/rosters.h"
#include "overlord/roles/keeper/supervisor.h"
#include "overlord/runtime/cluster.h"

namespace overlord::keeper {

// Hosts are numbered by their first rank; those without one from here on, a lead first.
constexpr uint32_t kHostWithoutRanks = (1u << 31) - 1;

// Everything that does not change while the keeper runs.
struct KeeperJob {
  Digest job;                     // what attaching ranks must name
  std::vector<Rank> ranks;        // of the job
  std::vector<Rank> local;        // of this host; of a lead among others: that may come to it
  bool leads = true;              // the planner is here; else another node has it
  bool alone = true;              // no other host
  bool stays = false;             // waits for the next attempt instead of ending
  std::string lead;               // where the node is called that leads
  int64_t lead_back_ns = 0;       // how long it is waited for when it has died; 0: not at all
  uint32_t attempt = 0;           // of the trainer that started it
  uint32_t process = 0;           // for people
  uint32_t generation = 1;        // of this keeper
  bool comes_again = false;       // one before it has died: its ranks come by themselves
  uint32_t begun = 0;             // the attempt that they have begun; 0: nobody has said
  std::vector<Rank> came_before;  // to that one, of the same host
  std::vector<runtime::GroupPlacement> living;  // that the one before it has left
  std::vector<protocol::ProcessRoles> groups;   // of this host, for the job's own tree
  protocol::HostGift gives = {1};               // this host to loaders, with all of `groups`
  uint32_t cores = 0;                           // that it may use; 0: nobody has said
  std::vector<uint64_t> slot_millicores;        // of plan, by source
  SupervisorOptions supervision;
  std::shared_ptr<const model::ViewTable> views;
  protocol::Welcome welcome;  // what all are told alike

  const std::vector<Rank>& expected() const { return leads ? ranks : local; }
  // What rosters call this host: its first rank, or a number that no host with ranks has, where it
  // is not known yet who comes.
  uint32_t host() const { return leads && !alone ? kHostWithoutRanks : local.front(); }
};

// Groups of a later tree, alone: some may be there already.
struct TreePlaced {
  protocol::TreeTold tree;
  std::vector<protocol::ProcessRoles> groups;
};

struct PeerConnected {
  std::string name;
  uint32_t generation = 1;
  std::string wire;
};
struct PeerLost {
  std::string name;
};
struct TrainerAttached {  // it was not refused
  std::string peer;
  protocol::Attach attach;
};
struct TrainerLeft {
  std::string peer;
};
struct AttachWaits {  // until all others have left what it has left
  std::string peer;
  protocol::Attach attach;
};
struct WaiterLeft {
  std::string peer;
};
struct WaitingOver {};  // they attach now, or are told why not
struct Settled {};      // those that did not come again do not
struct LeadAnswered {
  protocol::Welcome welcome;
};
struct LeadLost {};  // and is waited for
struct LeadBack {    // in a later term of the same run
  protocol::Welcome welcome;
};
struct RosterHeard {  // from the node of another host
  std::string peer;
  protocol::Roster roster;
};
struct RowHeard {
  protocol::RowNoted note;
};
struct ServingBegun {};   // all are here and agree
struct ServingPrepared {  // the first step is known, and the planner where it is here
  std::string state;      // encode_resume_state
  model::Versions versions;
  std::string run;
  uint32_t term = 1;
};
struct MissingGone {};  // those that are here were served before, and go on without
struct ServingStopped {};
struct TrainersWelcomed {};
struct FollowerWelcomed {
  std::string peer;
};
struct GroupAdopted {  // placed by a keeper before this one
  std::string name;
  uint32_t generation = 1;
};
struct HostJoined {
  std::string peer;
  protocol::HostGift gives;
  std::optional<Rank> rank;  // its first; unset: it has none
};
struct HostLeft {
  std::string peer;
  bool lost = true;  // false: it has said so before
};
struct HostBears {  // no more groups than that
  std::string peer;
  uint32_t most = 0;
};
struct GroupsHomed {  // where groups are wanted
  plan::GroupHomes homes;
};
struct GroupMoved {  // it ends, and comes again where it is wanted
  std::string name;
};
struct GroupPlaced {
  std::string name;
  std::string host;  // empty: this one
  int64_t now_ns = 0;
};
struct GroupHeard {
  GroupWord word;
  int64_t now_ns = 0;
};
struct GroupCondemned {
  std::string name;
};
struct GroupEnded {  // and is to be placed again
  runtime::GroupEnd end;
  int64_t now_ns = 0;
};
struct SlotPromoted {  // its process is lost
  Promotion promotion;
};
struct RoleRetired {
  protocol::Address role;
};
struct TreeBegun {  // everybody is to know it
  TreePlaced placed;
  bool journalled = false;  // it held before this keeper was there
};
struct TreeHeld {  // by a process or a trainer
  std::string peer;
  uint32_t version = 0;
};
struct WelcomeWaits {  // for the tree that is on its way
  std::string peer;
};
struct TreeToldToTrainers {};
struct TreeDone {};    // everybody knows it
struct PartingBegun {  // the last trainer has left
  std::set<std::string> unheard;
};
struct LastWordsHeard {
  std::string peer;
};
struct Parted {};
struct GaveUp {
  Status why;
  uint32_t attempt = 0;
};
struct FailureTold {
  std::vector<Rank> ranks;
};
struct EarlierFailureTold {
  std::vector<Rank> ranks;
};
struct AttemptForgotten {};  // the next may come
struct FailureForgotten {};  // of the attempt before
struct KeeperOver {};

using Event =
    std::variant<PeerConnected, PeerLost, TrainerAttached, TrainerLeft, AttachWaits, WaiterLeft,
                 WaitingOver, Settled, LeadAnswered, LeadLost, LeadBack, RosterHeard, RowHeard,
                 ServingBegun, ServingPrepared, MissingGone, ServingStopped, TrainersWelcomed,
                 FollowerWelcomed, HostJoined, HostLeft, HostBears, GroupsHomed, GroupMoved,
                 GroupAdopted, GroupPlaced, GroupHeard, GroupCondemned, GroupEnded, SlotPromoted,
                 RoleRetired, TreeBegun, TreeHeld, WelcomeWaits, TreeToldToTrainers, TreeDone,
                 PartingBegun, LastWordsHeard, Parted, GaveUp, FailureTold, EarlierFailureTold,
                 AttemptForgotten, FailureForgotten, KeeperOver>;

struct GroupHome {  // hosts; empty: this one
  std::string wanted;
  std::optional<std::string> lives = {};  // not the same: it is on its way; unset: nowhere yet
};

class KeeperState {
 public:
  // One attempt that is served.
  struct Serving {
    Supervisor supervisor;
    std::string state;
    model::Versions versions;
    std::string run;
    uint32_t term = 1;  // of the planner
    bool welcomed = false;
    std::set<std::string> followers;              // that were welcomed
    std::vector<protocol::TreeTold> trees;        // later ones than the job's own
    std::map<std::string, uint32_t> taken;        // by peer: the newest tree it knows
    bool rolling = false;                         // not everybody knows the newest
    bool trainers_told = false;                   // of the newest
    bool retired = false;                         // constructors of a tree that holds no more
    std::map<std::string, GroupHome> homes = {};  // of groups that may move; others live here
    std::vector<Rank> local = {};                 // ranks that have come to this host
    protocol::HostGift gives = {};                // this host to loaders
    std::set<Rank> awaited =
        {};  // the newest tree places steps again for them, and they have not begun
    std::set<std::string> unwelcomed = {};  // came while the newest tree was on its way
    plan::GroupHomes wanted() const;
  };

  explicit KeeperState(const KeeperJob& job);

  void apply(const Event& event);

  const KeeperJob& job() const { return job_; }
  const AttachBook& book() const { return book_; }
  // Ranks, and hosts of ranks, that are through with the attempt and have asked for the next.
  const std::map<std::string, protocol::Attach>& waiting() const { return waiting_; }
  bool ever_served() const { return ever_served_; }
  // Whether it is known who has come again.
  bool settled() const { return settled_; }
  const Serving* serving() const { return serving_ ? &*serving_ : nullptr; }
  // Role processes that are connected, with their generation.
  const std::map<std::string, uint32_t>& connected() const { return connected_; }
  bool connected(const protocol::ProcessRoles& group) const;
  // Connected, and not about to be killed: it can take over what it stands by for.
  bool lives(const protocol::ProcessRoles& group) const;
  Protection protection() const;
  // What would become of the slots of a group that is lost now.
  std::vector<Promotion> promotions_from(const std::string& lost) const;
  struct JoinedHost {
    protocol::HostGift gives;
    uint32_t number = 0;  // in rosters
    bool ranks = false;
    uint32_t most = std::numeric_limits<uint32_t>::max();  // groups that its memory can bear
  };
  const std::map<std::string, JoinedHost>& hosts() const { return hosts_; }
  // The last few, for people.
  const std::vector<std::string>& lost_hosts() const { return lost_hosts_; }
  const std::map<SampleId, protocol::RowNoted>& notes() const { return notes_; }
  const std::optional<protocol::Welcome>& lead() const { return lead_; }
  bool lead_missing() const { return lead_missing_; }
  uint64_t lead_losses() const { return lead_losses_; }
  const std::optional<FailureBook>& failure() const { return failed_; }
  // Of an attempt that has left: its late ranks are told as well.
  const std::optional<FailureBook>& earlier_failure() const { return earlier_; }
  uint64_t failures() const { return failures_; }
  // The last words of these are awaited; unset: nobody has left.
  const std::optional<std::set<std::string>>& parting() const { return parting_; }
  uint64_t partings() const { return partings_; }
  bool over() const { return over_; }
  const std::vector<runtime::GroupPlacement>& living() const { return job_.living; }
  uint32_t first_generation() const { return first_generation_; }  // of groups of the next attempt

  const std::string& host_of(const std::string& group) const;  // empty: this one
  // Ranks whose trainers are on this host: those that did not come by way of another.
  std::vector<Rank> local() const;
  HostRosters rosters() const;
  std::vector<std::string> processes() const;  // by name
  std::vector<std::string> trainers() const;
  // Those of them that do not know the newest tree.
  std::vector<std::string> lacking_tree(const std::vector<std::string>& peers) const;
  // Ranks that begin with a tree, whatever they had before: the newest places steps again for them
  // and they have not begun with it, or it has no place for them and they wait for one that has.
  bool begin_with_a_tree(const std::vector<Rank>& ranks) const;
  // Whom a new tree waits for, for people; empty: nobody.
  std::string tree_waits() const;

 private:
  struct Change;

  const KeeperJob& job_;
  AttachBook book_;
  std::map<std::string, protocol::Attach> waiting_;
  bool settled_, ever_served_ = false;
  std::map<std::string, uint32_t> connected_;
  std::map<std::string, std::string> wires_;           // of role processes: where others call them
  std::map<std::string, protocol::Roster> elsewhere_;  // by node of another host
  std::map<std::string, JoinedHost> hosts_;            // by peer
  std::vector<std::string> lost_hosts_;
  uint32_t joined_ = 0;                           // ever
  std::optional<protocol::Welcome> lead_;         // what the lead has said
  std::map<SampleId, protocol::RowNoted> notes_;  // a restarted loader finds rows again
  std::optional<Serving> serving_;
  uint32_t first_generation_;
  std::optional<FailureBook> failed_, earlier_;
  uint64_t failures_ = 0, partings_ = 0, lead_losses_ = 0;
  bool lead_missing_ = false;
  std::optional<std::set<std::string>> parting_;
  bool over_ = false;
};

}  // namespace overlord::keeper
