// What cannot be served, and the end: everybody who waits is told why, once, and who comes later as
// well.
#include <algorithm>
#include <utility>

#include "overlord/roles/keeper/step.h"

namespace overlord::keeper {
namespace {

constexpr int64_t kLastWordNs = 1'000'000'000;      // for other hosts to hear its own
constexpr int64_t kFailureKeptNs = 10'000'000'000;  // for ranks that come late, where a node stays

}  // namespace

// The job cannot go on: everybody is told why, and the node ends when they have left.
void Step::give_up(const Status& why, const protocol::Attach* refused) {
  if (state_.failure() || state_.over()) return;
  const uint32_t attempt = refused == nullptr ? job_.attempt : refused->attempt;
  apply(GaveUp{why, std::max(attempt, state_.book().attempt())});
  if (refused != nullptr) apply(FailureTold{refused->ranks});
  add(Say{why.message()});
  tell_trainers(protocol::Refused{why});
  if (!job_.leads) tell("lead", protocol::Refused{why});
  for (const auto& [peer, attach] : state_.waiting()) {
    tell(peer, protocol::Refused{why});
    apply(FailureTold{attach.ranks});
  }
  apply(WaitingOver{});
  for (const auto& [peer, trainer] : state_.book().attached()) apply(FailureTold{trainer.ranks});
  stop_serving();
  if (!state_.book().attached().empty()) return;
  if (job_.stays) return begin_anew();
  end();
}

void Step::hear(const std::string& peer, const protocol::Refused& refused) {
  if (peer == "lead") give_up(refused.status.with_context("the lead"));
  const bool follower = state_.book().attached().contains(peer);
  if (follower) give_up(refused.status.with_context(peer));
}

void Step::operator()(const RanksDiffer& input) {
  if (state_.failure()) return;
  const std::vector<Rank> missing = state_.book().missing();
  give_up(input.why);
  if (state_.failure()) apply(FailureTold{missing});
}

void Step::operator()(const ToldToEnd& input) {
  give_up(input.why);
  if (job_.alone) return end();
  add(After{kLastWordNs, Timer::kEnd});
}

// Whoever has taken over serves them: their stream goes on.
void Step::operator()(const Superseded& input) {
  add(Say{input.why.message()});
  end();
}

void Step::operator()(const Expired& input) {
  switch (input.timer) {
    case Timer::kAttach: {
      if (state_.ever_served() || job_.stays) return;
      std::string missing;
      for (const Rank rank : state_.book().missing()) missing += " " + std::to_string(rank);
      return give_up(
          Status(Code::kDeadline, missing.empty()
                                      ? "the node that plans for all hosts, at " + job_.lead +
                                            ", does not answer, or waits for ranks of other hosts"
                                      : "these ranks have not attached:" + missing));
    }
    case Timer::kComeAgain:
      return go_on();
    case Timer::kLeadBack:
      if (!state_.lead_missing() || input.number != state_.lead_losses()) return;
      return give_up(Status(Code::kUnavailable,
                            "the node that plans for all hosts, at " + job_.lead +
                                ", is gone and did not come back within "
                                "runtime.processes.recovery_seconds: restart from the last "
                                "checkpoint"));
    case Timer::kLastWords:
      return input.number == state_.partings() ? part() : void();
    case Timer::kFailureKept:
      return input.number == state_.failures() ? apply(FailureForgotten{}) : void();
    case Timer::kEnd:
      return end();
  }
}

// Ranks that live call a keeper that comes again at once. Those that do not come are gone; where
// nobody comes there is nobody to serve.
void Step::go_on() {
  apply(Settled{});
  if (serving() != nullptr || state_.failure() || state_.over()) return;
  if (state_.book().attached().empty()) {
    if (!state_.waiting().empty()) return read_on();
    return job_.stays ? void() : end();
  }
  if (state_.book().run().empty()) return;  // they begin: all of them are awaited
  apply(MissingGone{});
  agreed();
}

// A node that stays waits for the next attempt, and tells late ranks of this one how it ended.
void Step::begin_anew() {
  const uint64_t before = state_.failures();
  apply(AttemptForgotten{});
  if (state_.failures() != before) {
    add(After{kFailureKeptNs, Timer::kFailureKept, state_.failures()});
  }
  stop_serving();
}

void Step::end() {
  if (state_.over()) return;
  apply(KeeperOver{});
  add(End{});
}

}  // namespace overlord::keeper
