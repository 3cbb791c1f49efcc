// Step: one reaction of the keeper. Private to its parts: logic.cc for who comes and goes and what
// is served, ending.cc for what cannot be, hosts.cc for where groups live.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "overlord/protocol/one_of.h"
#include "overlord/roles/keeper/logic.h"

namespace overlord::keeper {

// One reaction: its effects as they come to be.
class Step {
 public:
  Step(const KeeperJob& job, KeeperState& state, int64_t now_ns)
      : job_(job), state_(state), now_ns_(now_ns) {}

  std::vector<Effect> take() { return std::move(effects_); }

  void operator()(const Connected& input);
  void operator()(const Lost& input);
  void operator()(const Heard& input);
  void operator()(const Ended& input);
  void operator()(const Begun& input);
  void operator()(const TreeChanged& input);
  void operator()(const ConstructorRetired& input);
  void operator()(const FeedbackCounts& input) { tell_trainers(protocol::FedBack{input.feedback}); }
  void operator()(const Expired& input);
  void operator()(const Watched&);
  void operator()(const CannotServe& input) { give_up(input.why); }
  void operator()(const RanksDiffer& input);
  void operator()(const ToldToEnd& input);
  void operator()(const Superseded& input);

  // A message for the keeper. All are named: one that is added is not forgotten in silence.
  void hear(const std::string& peer, const protocol::Attach& attach);
  void hear(const std::string& peer, const protocol::Welcome& welcome);
  void hear(const std::string& peer, const protocol::Refused& refused);
  void hear(const std::string& peer, const protocol::Roster& roster);
  void hear(const std::string& peer, const protocol::FedBack& fed_back);
  void hear(const std::string& peer, const protocol::RowNoted& note);
  void hear(const std::string& peer, const protocol::Beat& beat);
  void hear(const std::string& peer, const protocol::StatusAsked&) { add(TellStatus{peer}); }
  void hear(const std::string& peer, const protocol::StatusTold& told);
  void hear(const std::string& peer, const protocol::Detach&);
  void hear(const std::string& peer, const protocol::TreeAsked& asked);
  void hear(const std::string& peer, const protocol::TreeTaken& taken);
  void hear(const std::string& peer, const protocol::Join& join);
  void hear(const std::string& peer, const protocol::HostPressed& word);
  // Of the links and the cluster, and what a keeper says itself.
  template <protocol::OneOf<protocol::Hello, protocol::SegmentShared, protocol::SegmentForgotten,
                            protocol::LeaseReleased, protocol::TreeAnswered, protocol::TreeTold,
                            protocol::GroupAsked, protocol::GroupUnasked, protocol::GroupGone,
                            protocol::GroupsStarve>
                Other>
  void hear(const std::string&, const Other&) {}

 private:
  const KeeperState::Serving* serving() const { return state_.serving(); }
  void apply(Event event) { state_.apply(event); }
  void add(Effect effect) { effects_.push_back(std::move(effect)); }
  void tell(const std::string& peer, protocol::Control control) {
    add(Tell{peer, std::move(control)});
  }
  void tell_trainers(const protocol::Control& control) {
    for (const std::string& peer : state_.trainers()) tell(peer, control);
  }

  bool waits(const std::string& peer, const protocol::Attach& attach) const;
  void fence(const protocol::Attach& attach);
  void call_lead();
  void attach_to_lead();
  void read_on();
  bool refused_before(const std::string& peer, const protocol::Attach& attach);
  void lead_lost();
  void lead_back(const protocol::Welcome& welcome);
  void leave(const std::string& peer, bool lost);
  void part();
  void agreed();
  void serve();
  void welcome_again(const std::string& peer);
  bool refuse_return(const std::string& peer);
  void place(const std::string& name, const std::vector<runtime::GroupPlacement>& running);
  void host_left(const std::string& peer, bool lost);
  void settle_homes();
  void condemn(const std::string& name, const std::string& why);
  bool promote_from(const std::string& lost);
  void stop_serving();
  void roster_changed();  // of all hosts
  void groups_changed();  // of this one, which the lead has to know
  void welcome_all();
  protocol::Welcome welcome_for(const AttachBook::Trainer& trainer) const;
  void greet(const protocol::ProcessRoles& group);
  void look_at_tree();
  // `refused`: who has been told already.
  void give_up(const Status& why, const protocol::Attach* refused = nullptr);
  void go_on();
  void begin_anew();
  void end();

  const KeeperJob& job_;
  KeeperState& state_;
  const int64_t now_ns_;
  std::vector<Effect> effects_;
};

}  // namespace overlord::keeper
