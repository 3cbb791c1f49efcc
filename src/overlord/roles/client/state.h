// ClientState: one rank. Which steps it has asked for, which have come, which the trainer is done
// with. Changed only by apply().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/model/microbatch.h"
#include "overlord/model/plan.h"
#include "overlord/protocol/peer_generations.h"

namespace overlord::client {

struct ReadyStep {
  StepIndex step = 0;
  model::PlanPtr plan;
  std::vector<model::MicrobatchPtr> microbatches;
  std::optional<Status> failure;  // instead of a plan: the stream stops before this step
};

struct StepAsked {
  StepIndex step = 0;
};
struct StepArrived {
  ReadyStep ready;
};
struct StepHandedOver {
  StepIndex step = 0;
};
struct StepConsumed {
  StepIndex step = 0;
};
// The stream goes on from here anew under another tree, whatever was read of it. Unset: the tree
// has no place for this rank.
struct Restarted {
  uint32_t tree = 0;
  StepIndex step = 0;
  std::optional<protocol::Address> constructor;
};
struct Reseated {  // steps from this one on come from another tree's constructor
  StepIndex first_step = 0;
  protocol::Address constructor;
};

struct Reported {  // to the planner
  model::StepFeedback part;
};
struct ReportRetold {  // by the trainer, of a step it has reported before
  StepIndex step = 0;
};
struct ReportsRepeated {};  // all that are kept, to the planner of another term
struct ReportSettled {      // its verdict was handed on
  StepIndex step = 0;
};

// A report is kept after its verdict too: a planner that died may have had it in memory alone.
struct KeptReport {
  model::StepFeedback part;
  bool settled = false;
  bool repeated = false;
  bool retold = false;  // behind its verdict: the trainer waits for another
};

using Event =
    std::variant<StepAsked, StepArrived, StepHandedOver, StepConsumed, Restarted, Reseated,
                 Reported, ReportRetold, ReportsRepeated, ReportSettled, protocol::PeerRestarted>;

class ClientState {
 public:
  // `reports_kept`: as many as may not count yet.
  explicit ClientState(StepIndex first_step, protocol::PeerGenerations peers = {},
                       uint32_t reports_kept = 64)
      : reports_kept_(reports_kept),
        next_ask_(first_step),
        next_handover_(first_step),
        consumed_(first_step),
        peers_(std::move(peers)) {}

  void apply(const Event& event);

  StepIndex next_ask() const { return next_ask_; }
  StepIndex consumed() const { return consumed_; }  // steps before it are done with
  // The next step in order, if it has come.
  const ReadyStep* ready() const;
  bool finished() const { return finished_; }  // the last step, or a failure, was handed over
  std::vector<StepIndex> missing() const;      // asked for, and not come
  // Constructors of later trees than the first, by the first step of each.
  const std::map<StepIndex, protocol::Address>& seats() const { return seats_; }
  uint32_t tree() const { return tree_; }  // the newest that it began anew under; 0: none
  bool absent() const { return absent_; }  // no tree that holds has a place for it
  const std::map<StepIndex, KeptReport>& reports() const { return reports_; }
  const protocol::PeerGenerations& peers() const { return peers_; }

 private:
  struct Apply;
  uint32_t reports_kept_;
  std::map<StepIndex, KeptReport> reports_;  // the newest
  StepIndex next_ask_;
  StepIndex next_handover_;
  StepIndex consumed_;
  bool finished_ = false;
  uint32_t tree_ = 0;
  bool absent_ = false;
  std::map<StepIndex, ReadyStep> arrived_;
  std::map<StepIndex, protocol::Address> seats_;  // one per tree of the run
  protocol::PeerGenerations peers_;
};

}  // namespace overlord::client
