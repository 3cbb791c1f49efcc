#include "overlord/node/hosts/leading_in_turn.h"

#include <cstdio>
#include <utility>

#include "overlord/node/drawn_once.h"
#include "overlord/node/hosts/joined_host.h"
#include "overlord/node/recovery/left_groups.h"
#include "overlord/node/run_journal.h"

namespace overlord::node {
namespace {

// The first of the list where nobody leads, and whoever led when its process died.
bool leads_at_once(const storage::LeadClaim& newest, const WireOptions& wire) {
  return newest.held() ? newest.holder == wire.at : wire.at == wire.first();
}

// It is a joined host: what it runs belongs to the lead, and ends with this process.
Result<uint32_t> stand_by(const KeeperArguments& arguments, const protocol::JobFile& job,
                          LifeLine& line) {
  Result<LeftGroups> left = find_groups(arguments.directory);
  if (left.ok()) end_groups(*left);
  OVERLORD_RETURN_IF_ERROR(leave_groups(arguments.directory, {}));
  KeeperArguments standing = arguments;
  standing.wire.leads = false;
  standing.wire.joined = true;
  standing.recovery_ms = 0;
  return run_joined_host(standing, job, line);
}

// 0: it does not lead.
Result<uint32_t> first_claim(const KeeperArguments& arguments) {
  OVERLORD_TRY(const storage::LeadClaim newest, arguments.claims->newest());
  if (!leads_at_once(newest, arguments.wire)) return 0;
  OVERLORD_TRY(const bool claimed, arguments.claims->claim(newest.number + 1, arguments.wire.at));
  return claimed ? newest.number + 1 : 0;
}

}  // namespace

Status lead_in_turn(KeeperArguments arguments, const protocol::JobFile& job, LifeLine& line) {
  const std::string folder = journal_folder_of(job.journal_path, arguments.job, "lead");
  OVERLORD_TRY(storage::LeadClaims claims, storage::LeadClaims::open(folder, drawn_once()));
  arguments.claims = std::make_shared<const storage::LeadClaims>(std::move(claims));
  while (true) {
    OVERLORD_TRY(arguments.claim, first_claim(arguments));
    if (arguments.claim == 0) {
      std::fprintf(stderr, "this host stands by at %s\n", arguments.wire.at.c_str());
      OVERLORD_TRY(arguments.claim, stand_by(arguments, job, line));
      if (arguments.claim == 0) return {};
    }
    bool superseded = false;
    const auto failure = run_keeper(arguments, job, line, &superseded);
    if (superseded) continue;
    // In good order, or for a reason that another would have as well.
    OVERLORD_RETURN_IF_ERROR(
        arguments.claims->claim(arguments.claim + 1, storage::LeadClaim::kEnded).status());
    return failure ? failure->why() : Status();
  }
}

}  // namespace overlord::node
