// Keeper logic: pure reactions. What has happened and the state give events, which are applied at
// once because one decision leads to the next, and effects to carry out.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "overlord/model/mesh.h"
#include "overlord/model/mixture.h"
#include "overlord/protocol/control.h"
#include "overlord/roles/keeper/state.h"
#include "overlord/runtime/cluster.h"

namespace overlord::keeper {

// --- What happens -------------------------------------------------------------------------------

struct Connected {
  protocol::Hello hello;
};
struct Lost {
  std::string peer;
};
struct Heard {
  std::string peer;
  protocol::Control control;
};
struct Ended {
  runtime::GroupEnd end;
};
// The answer to Begin. What lives already was begun by a keeper before this one.
struct Begun {
  Status status;
  std::string state = {};  // encode_resume_state of the first step
  model::Versions versions = {};
  std::string run = {};  // what those that it serves have in common
  uint32_t term = 1;     // of the planner
  std::vector<runtime::GroupPlacement> running = {};
  std::vector<TreePlaced> trees = {};
  std::vector<protocol::Address> retired = {};
  bool superseded = false;  // another leads: it serves all this
};
struct TreeChanged {  // durable; the planner waits for TreeReady
  TreePlaced placed;
};
struct ConstructorRetired {
  protocol::Address constructor;
};
struct FeedbackCounts {
  model::StepFeedback feedback;
};
enum class Timer : uint8_t { kAttach, kComeAgain, kLeadBack, kLastWords, kFailureKept, kEnd };
struct Expired {
  Timer timer;
  uint64_t number = 0;  // what After said
};
struct Watched {                  // now and then
  std::set<std::string> starved;  // groups that would run and get no CPU
};
struct CannotServe {
  Status why;
};
struct RanksDiffer {  // those that are missing are with another node, which tells them
  Status why;
};
struct ToldToEnd {
  Status why;
};
struct Superseded {  // a later planner has the journal: what this one knows counts no more
  Status why;
};
using Input =
    std::variant<Connected, Lost, Heard, Ended, Begun, TreeChanged, ConstructorRetired,
                 FeedbackCounts, Expired, Watched, CannotServe, RanksDiffer, ToldToEnd, Superseded>;

// --- What is to be done -------------------------------------------------------------------------

struct Tell {
  std::string peer;
  protocol::Control control;
};
struct Drop {
  std::string peer;
  Status why;
};
struct CallLead {};
// Where roles live now, and in which generation: for whoever sends, and for the planner.
struct SetRoster {
  protocol::Roster roster;
};
struct Begin {  // an attempt; answered with Begun
  uint32_t attempt = 0;
  std::string state;  // encode_resume_state, as it was saved; empty: the start
  protocol::AllowedChanges allowed;
  protocol::Roster roster;  // where nothing of it lives yet
  std::string run;          // that its ranks were welcomed to before; empty: they begin
};
struct Place {
  runtime::GroupPlacement group;
};
struct Kill {
  std::string name;
};
struct StopServing {};
struct After {
  int64_t delay_ns = 0;
  Timer timer;
  uint64_t number = 0;
};
struct Say {  // in the log
  std::string text;
};
struct TreeReady {  // perhaps again
  uint32_t version = 0;
};
struct RebuildTree {  // the planner is asked, and `peer` gets its answer
  std::string peer;
  uint64_t question = 0;
  model::Mesh mesh;
  std::optional<StepIndex> step;
  std::vector<Rank> ranks;
};
struct TellStatus {
  std::string peer;
};
struct NoteStatus {  // what a process or a trainer has told of its work
  std::string peer;
  std::string status;
};
struct ForgetStatus {
  std::string peer;
};
struct TellUnpacking {};  // to the lead
struct End {};
using Effect =
    std::variant<Tell, Drop, CallLead, SetRoster, Begin, Place, Kill, StopServing, After, Say,
                 TreeReady, RebuildTree, TellStatus, NoteStatus, ForgetStatus, TellUnpacking, End>;

std::vector<Effect> react(const KeeperJob& job, KeeperState& state, const Input& input,
                          int64_t now_ns);
}  // namespace overlord::keeper
