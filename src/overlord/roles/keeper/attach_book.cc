#include "overlord/roles/keeper/attach_book.h"

#include <algorithm>

#include "overlord/base/check.h"

namespace overlord::keeper {
namespace {

std::string list_of(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

bool holds(const std::vector<Rank>& ranks, Rank rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

Status attached_already(Rank rank, uint32_t attempt) {
  return invalid_argument("rank " + std::to_string(rank) + " is attached already in attempt " +
                          std::to_string(attempt) + ", by a process that lives");
}

}  // namespace

AttachBook::AttachBook(std::vector<Rank> expected, Digest job, uint32_t attempt)
    : expected_(std::move(expected)), job_(job), attempt_(attempt) {
  OVERLORD_CHECK(!expected_.empty(), "a node serves a rank at least");
}

Status AttachBook::refusal(const protocol::Attach& attach) const {
  if (attach.job != job_) {
    return Status(Code::kStateMismatch,
                  "this node serves the job " + job_.hex() + ", rank " + list_of(attach.ranks) +
                      " asks for " + attach.job.hex() +
                      "; every rank must use the same config, files, mesh and seed");
  }
  if (attach.attempt < attempt_) {
    return Status(Code::kCancelled, "attempt " + std::to_string(attach.attempt) +
                                        " is over: attempt " + std::to_string(attempt_) +
                                        " has started");
  }
  for (const Rank rank : attach.ranks) {
    if (holds(expected_, rank)) continue;
    return invalid_argument("rank " + std::to_string(rank) +
                            " is not served by this node; it serves " + list_of(expected_));
  }
  if (attach.attempt > attempt_) return {};
  if (!attach.run.empty() && !run_.empty() && attach.run != run_) {
    return Status(Code::kCancelled, "rank " + list_of(attach.ranks) +
                                        " reads another run than the ranks that are here: all "
                                        "ranks of a run start together");
  }
  for (const auto& [peer, trainer] : attached_) {
    for (const Rank rank : attach.ranks) {
      if (holds(trainer.ranks, rank)) return attached_already(rank, attempt_);
    }
  }
  return {};
}

bool AttachBook::opens_again(const protocol::Attach& attach) const {
  return attempt_ > 0 && attach.attempt > attempt_ &&
         attach.attempt / kOpeningsPerStart == attempt_ / kOpeningsPerStart;
}

std::vector<std::string> AttachBook::fenced_by(const protocol::Attach& attach) const {
  std::vector<std::string> out;
  if (attach.attempt <= attempt_) return out;
  for (const auto& [peer, trainer] : attached_) out.push_back(peer);
  return out;
}

void AttachBook::attach(const std::string& peer, const protocol::Attach& attach) {
  OVERLORD_CHECK(refusal(attach).ok(), "who is refused does not attach");
  if (attach.attempt > attempt_) {
    attached_.clear();
    gone_.clear();
    serving_ = false;
    attempt_ = attach.attempt;
    run_.clear();
  }
  OVERLORD_CHECK(run_.empty() || attach.run.empty() || attach.run == run_, "one run is served");
  std::erase_if(gone_, [&](Rank rank) { return holds(attach.ranks, rank); });
  const bool fresh = attach.run.empty();
  attached_[peer] = {attach.ranks, digest_of(attach.state), attach.process, fresh};
  if (!fresh) run_ = attach.run;
  if (!fresh || (run_.empty() && !serving_)) {
    state_ = attach.state;
    allowed_ = attach.allowed;
  }
  count_returns();
  serving_ = serving_ || (missing().empty() && disagreement().ok());
}

// Where a run is known, whoever does not name it begins alone.
void AttachBook::count_returns() {
  if (run_.empty() && !serving_) return;
  for (auto& [peer, trainer] : attached_) {
    if (trainer.fresh && trainer.returns == 0) trainer.returns = ++returns_;
  }
}

void AttachBook::welcomed(const std::string& run) {
  OVERLORD_CHECK(serving_ && !run.empty(), "who is served reads a run");
  run_ = run;
  for (auto& [peer, trainer] : attached_) trainer.fresh = false;
}

void AttachBook::go_on_without_missing() {
  OVERLORD_CHECK(!serving_ && !attached_.empty() && !run_.empty(),
                 "those that are here go on with what they have begun");
  gone_ = missing();
  serving_ = disagreement().ok();
}

Status AttachBook::disagreement() const {
  if (attached_.empty() || missing().size() > gone_.size()) return {};
  const auto agrees = [](const auto& item) { return item.second.returns == 0; };
  const auto found = std::find_if(attached_.begin(), attached_.end(), agrees);
  if (found == attached_.end()) return {};
  const Trainer& first = found->second;
  for (const auto& [peer, trainer] : attached_) {
    if (trainer.state == first.state || trainer.returns > 0) continue;
    return Status(Code::kStateMismatch,
                  "ranks want to go on from different states: rank " + list_of(first.ranks) +
                      " from " + first.state.hex() + ", rank " + list_of(trainer.ranks) + " from " +
                      trainer.state.hex() + "; load the same checkpoint on every rank");
  }
  return {};
}

void AttachBook::leave(const std::string& peer) {
  const auto found = attached_.find(peer);
  if (found == attached_.end()) return;
  const std::vector<Rank>& ranks = found->second.ranks;
  if (serving_) gone_.insert(gone_.end(), ranks.begin(), ranks.end());
  attached_.erase(found);
}

void AttachBook::begin_anew() {
  OVERLORD_CHECK(attached_.empty(), "the next attempt begins when all have left");
  attempt_ = 0;
  serving_ = false;
  run_.clear();
  gone_.clear();
}

std::vector<Rank> AttachBook::missing() const {
  std::vector<Rank> out;
  for (const Rank rank : expected_) {
    const bool here = std::any_of(attached_.begin(), attached_.end(),
                                  [&](const auto& item) { return holds(item.second.ranks, rank); });
    if (!here) out.push_back(rank);
  }
  return out;
}

}  // namespace overlord::keeper
