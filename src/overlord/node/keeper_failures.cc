// A job that cannot be served: everybody who waits for it is told why, once, and those who come
// later as well.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "overlord/node/job_keeper.h"

namespace overlord::node {
namespace {

constexpr int64_t kLastWordNs = 1'000'000'000;      // for other hosts to hear it
constexpr int64_t kFailureKeptNs = 10'000'000'000;  // for ranks that come late, where a node stays

}  // namespace

// The job cannot go on: everybody is told why, and the node ends when they have left.
void Keeper::give_up(const Status& status, const protocol::Attach* refused) {
  if (failed_ || over_) return;
  const uint32_t attempt = refused == nullptr ? arguments_.attempt : refused->attempt;
  failed_.emplace(status, std::max(attempt, book_.attempt()), follows_ ? local_ : file_.ranks);
  if (refused != nullptr) failed_->told(refused->ranks);
  std::fprintf(stderr, "%s\n", status.message().c_str());
  tell_trainers(protocol::Refused{status});
  if (follows_) carrier_->send_control("lead", protocol::Refused{status});
  for (const auto& [connection, ranks] : book_.attached()) failed_->told(ranks);
  stop_serving();
  if (!peers_.empty()) return;
  if (arguments_.stays) return begin_anew();
  end();
}

void Keeper::end_because(const Status& why) {
  endpoint_->post([this, why] {
    give_up(why);
    if (!arguments_.wire.several_hosts()) return end();
    endpoint_->post_after(kLastWordNs, [this] { end(); });
  });
}

void Keeper::give_up_waiting() {
  if (serving_ || arguments_.stays || over_) return;
  std::string missing;
  for (const Rank rank : book_.missing()) missing += " " + std::to_string(rank);
  give_up(Status(Code::kDeadline,
                 missing.empty() ? "the node that plans for all hosts, at " + arguments_.wire.lead +
                                       ", does not answer, or waits for ranks of other hosts"
                                 : "these ranks have not attached:" + missing));
}

// The attempt that it belongs to has failed.
bool Keeper::refused_before(const std::string& peer, const protocol::Attach& attach) {
  if (failed_) {
    carrier_->send_control(peer, protocol::Refused{failed_->why()});
    failed_->told(attach.ranks);
    return true;
  }
  if (!earlier_) return false;
  const std::optional<Status> why = earlier_->tell(attach.ranks, attach.attempt);
  if (!why) earlier_.reset();
  if (why) carrier_->send_control(peer, protocol::Refused{*why});
  return why.has_value();
}

// Where its job differs, the others of its attempt wait in vain and are told the same.
void Keeper::refuse(const std::string& peer, const protocol::Attach& attach, const Status& why) {
  carrier_->send_control(peer, protocol::Refused{why});
  if (book_.serving() || attach.job == arguments_.job) return;
  give_up(why, &attach);
}

// A node that stays waits for the next attempt, and tells late ranks of this one how it ended.
void Keeper::begin_anew() {
  if (failed_) {
    earlier_ = std::exchange(failed_, std::nullopt);
    endpoint_->post_after(kFailureKeptNs, [this, failure = ++failures_] {
      if (failure == failures_) earlier_.reset();
    });
  }
  book_.begin_anew();
  stop_serving();
}

// Ranks that we miss may be with another node, because their job differs.
void Keeper::look_for_other_nodes() {
  if (serving_) return notes_of_run_.stop();
  std::vector<Rank> here;
  for (const auto& [connection, ranks] : book_.attached()) {
    here.insert(here.end(), ranks.begin(), ranks.end());
  }
  const auto differ = notes_of_run_.look(here, book_.missing(), clock_.now_ns());
  if (!differ || failed_) return;
  give_up(*differ);
  if (failed_) failed_->told(book_.missing());  // by the other node
}

}  // namespace overlord::node
