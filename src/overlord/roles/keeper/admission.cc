#include "overlord/roles/keeper/admission.h"

#include <algorithm>

#include "overlord/roles/keeper/peer_names.h"

namespace overlord::keeper {
namespace {

using protocol::ProcessRoles;

std::string named(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (const Rank rank : ranks) text += " " + std::to_string(rank);
  return text;
}

}  // namespace

Status admit(const KeeperState& state, const protocol::Hello& hello) {
  if (hello.format != protocol::kControlFormat) {
    return Status(Code::kVersionMismatch,
                  "this node speaks format " + std::to_string(protocol::kControlFormat) + ", " +
                      hello.name + " speaks " + std::to_string(hello.format) +
                      "; use one version of overlord on a host");
  }
  if (is_trainer(hello.name) || hello.name.starts_with("top-")) return {};
  if (is_joined_host(hello.name)) return {};  // what it says of itself is looked at
  if (state.serving() == nullptr) {           // it is not known yet whether they are needed
    for (const runtime::GroupPlacement& group : state.living()) {
      if (group.name == hello.name && group.generation == hello.generation) return {};
    }
  }
  const bool now = hello.attempt == 0 || hello.attempt == state.book().attempt();
  // Constructors of a host that follows us come when its node has told of them.
  for (const ProcessRoles& process : state.rosters().all().processes) {
    if (now && process.name == hello.name && process.generation == hello.generation) return {};
  }
  return Status(Code::kVersionMismatch, hello.name + " is of no use here, or of an earlier time");
}

Status may_attach_so(const KeeperJob& job, const std::string& peer,
                     const std::vector<Rank>& ranks) {
  if (!job.leads || job.alone || is_follower(peer)) return {};
  const auto here = [&](Rank rank) {
    return std::find(job.local.begin(), job.local.end(), rank) != job.local.end();
  };
  if (!std::all_of(ranks.begin(), ranks.end(), here)) {
    return invalid_argument(named(ranks) +
                            ": their trainers are on the host of the node that leads, which was "
                            "told that they are on another");
  }
  return {};
}

Status may_return(const KeeperJob& job, const KeeperState& state, const std::vector<Rank>& ranks) {
  std::string why;
  if (state.begin_with_a_tree(ranks)) return {};
  if (!job.alone) {
    why = "one node plans for several hosts";
  } else if (job.welcome.metric_driven) {
    why = "the mixture follows losses that it has not heard of";
  } else if (state.serving() != nullptr && state.serving()->retired) {
    // Who made its batches is gone. Before that a rank may be new: its first node died unheard.
    why = "the mesh has changed since the job began";
  } else {
    return {};
  }
  return {Code::kUnavailable, named(ranks) + " cannot come back alone, as " + why +
                                  ": restart the job from its states"};
}

}  // namespace overlord::keeper
