// NodeLosses: what a rank makes of a node that is gone or says nothing: when it is taken for hung,
// when waiting for the next one ends, and when it has died too often. A value without clock or
// threads.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "overlord/base/ids.h"
#include "overlord/base/status.h"

namespace overlord::node {

struct NodeLossLimits {
  int64_t recovery_ns = 0;             // how long a rank waits for the next node; 0: not at all
  uint32_t beats_unanswered = 10;      // one each second; so many: it hangs
  uint32_t losses_allowed = 100;       // ...
  int64_t within_ns = 60'000'000'000;  // ... in this time
};

class NodeLosses {
 public:
  explicit NodeLosses(NodeLossLimits limits) : limits_(limits) {}

  // The link is gone. Not ok: nobody is waited for.
  Status lost(int64_t now_ns);
  bool missing() const { return since_ns_ != 0; }
  // Since when nobody serves us; a node that dies before it does so changes nothing.
  int64_t since_ns() const { return since_ns_; }
  void served() { since_ns_ = 0; }

  // A beat is sent; true: those before it have not been answered for too long.
  bool beat();
  void answered() { unanswered_ = 0; }
  // A look, once a second, at what the node leaves while it does not answer: `beat` of its pulse.
  // True: it has been the same for too long.
  bool looked(int64_t beat);

  uint64_t losses() const { return losses_; }

 private:
  NodeLossLimits limits_;
  std::deque<int64_t> lost_ns_;  // the newest
  int64_t since_ns_ = 0;
  uint32_t unanswered_ = 0;
  int64_t seen_beat_ = 0;
  uint64_t losses_ = 0;
};

// Why a rank does not wait for the next one.
Status node_gone();
// Why it waits no longer; `last`: why nobody could start a node, if that is known.
Status not_back_in_time(int64_t recovery_ns, const Status& last);

// Why the other ranks wait no longer for those that are gone.
Status ranks_not_back(const std::vector<Rank>& ranks, int64_t recovery_ns);

}  // namespace overlord::node
