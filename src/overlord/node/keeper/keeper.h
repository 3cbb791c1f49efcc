// The node process of one job on one host: a keeper (roles/keeper), the planner, and the door to
// both. Where one node plans for several hosts it is the lead: it has the planner, and keeps
// loaders on all of them; the others follow it with constructors of their own. Where it is alone
// its death ends nothing: role processes serve on, a trainer starts the next one, which finds them
// and reads the journal. Among several hosts that needs somebody who runs the lead again (Ray);
// without, or without recovery, the job ends with it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/node/keeper/life_line.h"
#include "overlord/node/status/metrics_door.h"
#include "overlord/node/wire_options.h"
#include "overlord/protocol/control.h"
#include "overlord/protocol/job_codec.h"
#include "overlord/roles/keeper/failure_book.h"
#include "overlord/roles/keeper/process_placement.h"
#include "overlord/storage/lead_claims.h"

namespace overlord::node {

struct KeeperArguments {
  std::string directory;   // of the job's sockets; removed at the end
  std::string executable;  // of role processes
  Digest job;              // what attaching ranks must name
  keeper::PlacementOptions placement;
  int64_t attach_ms = 300'000;  // how long ranks may take to attach, all of them
  uint32_t attempt = 0;         // of the trainer that started the node
  std::vector<Rank> starter;    // its ranks
  std::string run;              // what ranks of one launcher on this host share; empty: nothing
  bool stays = false;           // a sidecar: waits for the next attempt instead of ending
  bool reruns = false;          // whoever runs it is run again when it dies, and starts the next
  std::vector<Rank> local;      // ranks of this host; empty: all that the job has
  bool lead_returns = false;    // somebody runs the lead again: it is waited for
  WireOptions wire;
  MetricsOptions metrics;
  bool share_batches = true;  // false: every rank has its own, for measurements
  int64_t recovery_ms = 0;    // how long trainers wait for the next node; 0: there is none
  int64_t orphan_ms = 0;      // how long role processes do
  protocol::HostGift gives;   // to loaders; cores are those that this process may use
  // Of one of several hosts that may lead: where it is told who does, and as the how manieth this
  // one leads.
  std::shared_ptr<const storage::LeadClaims> claims;
  uint32_t claim = 0;

  LifeLine::Starter owner() const {
    if (!stays) return LifeLine::Starter::kLeaves;
    return reruns ? LifeLine::Starter::kComesAgain : LifeLine::Starter::kStays;
  }
  // Of several hosts the lead does where somebody runs it again: the others call the next one.
  bool comes_back() const { return recovery_ms > 0 && (!wire.several_hosts() || reruns); }
};

// Runs until nobody needs it, or it is told to end. Where the job cannot be served: why, and which
// ranks that it serves have not been told. `superseded`: whether another node serves on with all
// that this one leaves.
std::optional<keeper::FailureBook> run_keeper(const KeeperArguments& arguments,
                                              const protocol::JobFile& job, LifeLine& line,
                                              bool* superseded = nullptr);

}  // namespace overlord::node
