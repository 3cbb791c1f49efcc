#include "overlord/node/attach_book.h"

#include <algorithm>

namespace overlord::node {
namespace {

std::string list_of(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

bool holds(const std::vector<Rank>& ranks, Rank rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

AttachBook::AttachBook(std::vector<Rank> expected, Digest job)
    : expected_(std::move(expected)), job_(job) {}

AttachBook::Outcome AttachBook::attach(Connection connection, const protocol::Attach& attach) {
  Outcome out;
  if (attach.job != job_) {
    out.refused = Status(Code::kStateMismatch,
                         "this node serves the job " + job_.hex() + ", rank " +
                             list_of(attach.ranks) + " asks for " + attach.job.hex() +
                             "; every rank must use the same config, files, mesh and seed");
    return out;
  }
  if (attach.attempt < attempt_) {
    out.refused = Status(Code::kCancelled, "attempt " + std::to_string(attach.attempt) +
                                               " is over: attempt " + std::to_string(attempt_) +
                                               " has started");
    return out;
  }
  for (const Rank rank : attach.ranks) {
    if (!holds(expected_, rank)) {
      out.refused =
          invalid_argument("rank " + std::to_string(rank) +
                           " is not served by this node; it serves " + list_of(expected_));
      return out;
    }
  }
  if (attach.attempt > attempt_) {
    for (const auto& [held, ranks] : attached_) out.fenced.push_back(held);
    attached_.clear();
    states_.clear();
    gone_.clear();
    serving_ = false;
    attempt_ = attach.attempt;
  }
  for (const auto& [held, ranks] : attached_) {
    for (const Rank rank : attach.ranks) {
      if (!holds(ranks, rank) && !holds(gone_, rank)) continue;
      out.refused = invalid_argument("rank " + std::to_string(rank) +
                                     " is attached already in attempt " + std::to_string(attempt_) +
                                     "; a rank that starts anew needs a new attempt of all ranks");
      return out;
    }
  }
  attached_[connection] = attach.ranks;
  states_[connection] = digest_of(attach.state);
  state_ = attach.state;
  allowed_ = attach.allowed;
  if (!missing().empty()) return out;
  for (const auto& [held, digest] : states_) {
    if (digest == states_.begin()->second) continue;
    out.disagreement = Status(
        Code::kStateMismatch,
        "ranks want to go on from different states: rank " + list_of(attached_.begin()->second) +
            " from " + states_.begin()->second.hex() + ", rank " + list_of(attached_.at(held)) +
            " from " + digest.hex() + "; load the same checkpoint on every rank");
    return out;
  }
  serving_ = true;
  out.serve = true;
  return out;
}

bool AttachBook::leave(Connection connection) {
  const auto found = attached_.find(connection);
  if (found == attached_.end()) return false;
  if (serving_) gone_.insert(gone_.end(), found->second.begin(), found->second.end());
  attached_.erase(found);
  states_.erase(connection);
  return attached_.empty();
}

void AttachBook::begin_anew() {
  attempt_ = 0;
  serving_ = false;
  gone_.clear();
}

std::vector<Rank> AttachBook::missing() const {
  std::vector<Rank> out;
  for (const Rank rank : expected_) {
    const bool here = std::any_of(attached_.begin(), attached_.end(),
                                  [&](const auto& item) { return holds(item.second, rank); });
    if (!here) out.push_back(rank);
  }
  return out;
}

}  // namespace overlord::node
