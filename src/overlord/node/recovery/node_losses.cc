#include "overlord/node/recovery/node_losses.h"

#include <utility>

namespace overlord::node {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

}  // namespace

Status NodeLosses::lost(int64_t now_ns) {
  if (limits_.recovery_ns == 0) return node_gone();
  ++losses_;
  unanswered_ = 0;
  lost_ns_.push_back(now_ns);
  while (now_ns - lost_ns_.front() > limits_.within_ns) lost_ns_.pop_front();
  if (lost_ns_.size() > limits_.losses_allowed) {
    return {Code::kUnavailable, "the node process of this host has died " +
                                    std::to_string(lost_ns_.size()) + " times within " +
                                    std::to_string(limits_.within_ns / kSecondNs) +
                                    " s: look for the reason in its log"};
  }
  if (since_ns_ == 0) since_ns_ = now_ns;
  return {};
}

bool NodeLosses::beat() {
  if (limits_.recovery_ns == 0) return false;
  return ++unanswered_ > limits_.beats_unanswered;
}

bool NodeLosses::looked(int64_t beat) {
  if (std::exchange(seen_beat_, beat) == beat) return this->beat();
  answered();
  return false;
}

Status node_gone() {
  return {Code::kUnavailable,
          "the node process of this host is gone; its planner went with it, so the stream stops "
          "here: restart from the last checkpoint"};
}

Status not_back_in_time(int64_t recovery_ns, const Status& last) {
  return {Code::kUnavailable,
          "the node process of this host is gone and did not come back within "
          "runtime.processes.recovery_seconds (" +
              std::to_string(recovery_ns / kSecondNs) + " s)" +
              (last.ok() ? "" : ": " + last.message()) + "; restart from the last checkpoint"};
}

Status ranks_not_back(const std::vector<Rank>& ranks, int64_t recovery_ns) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (const Rank rank : ranks) text += " " + std::to_string(rank);
  return {Code::kUnavailable, text + (ranks.size() == 1 ? " is" : " are") +
                                  " gone and did not come back within "
                                  "runtime.processes.recovery_seconds (" +
                                  std::to_string(recovery_ns / kSecondNs) +
                                  " s): restart the job from its states"};
}

}  // namespace overlord::node
