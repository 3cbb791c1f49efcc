#include "overlord/roles/keeper/logic.h"

#include <algorithm>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/roles/keeper/admission.h"
#include "overlord/roles/keeper/hosts.h"
#include "overlord/roles/keeper/peer_names.h"
#include "overlord/roles/keeper/step.h"

namespace overlord::keeper {
namespace {

constexpr int64_t kLastWordsNs = 1'000'000'000;  // so long it waits for those of processes

}  // namespace

using protocol::ProcessRoles;

// --- Who comes and goes -------------------------------------------------------------------------

void Step::operator()(const Connected& input) {
  const protocol::Hello& hello = input.hello;
  const bool begins = serving() == nullptr && !state_.failure() && state_.book().missing().empty();
  const bool lead = hello.name == "lead" && !job_.leads;
  if (lead && (begins || state_.lead_missing())) attach_to_lead();
  if (is_trainer(hello.name) || is_joined_host(hello.name)) return;
  apply(PeerConnected{hello.name, hello.generation, hello.wire});
  if (serving() == nullptr) return;
  apply(GroupHeard{{hello.name, hello.generation}, now_ns_});
  if (const ProcessRoles* group = serving()->supervisor.find(hello.name)) greet(*group);
  tell(hello.name, state_.rosters().all());
  groups_changed();
}

void Step::operator()(const Lost& input) {
  const std::string& peer = input.peer;
  if (peer == "lead") {
    apply(PeerLost{peer});
    return lead_lost();
  }
  if (state_.waiting().contains(peer)) apply(WaiterLeft{peer});
  if (is_trainer(peer)) return leave(peer, /*lost=*/true);
  if (is_joined_host(peer)) return host_left(peer, /*lost=*/true);
  const ProcessRoles* group = serving() != nullptr ? serving()->supervisor.find(peer) : nullptr;
  const bool was_there = group != nullptr && state_.connected(*group);
  if (was_there) add(Kill{peer});
  apply(PeerLost{peer});
  if (was_there && promote_from(peer)) groups_changed();
}

// What is planned is read on meanwhile.
void Step::lead_lost() {
  if (state_.parting()) return;  // nobody here reads any more
  // It has said nothing. Where the ranks have read before, it may have ended with that.
  const bool again = state_.book().attempt() % kOpeningsPerStart > 1;
  if (serving() == nullptr && (job_.lead_back_ns > 0 || again)) return add(CallLead{});
  if (serving() == nullptr || job_.lead_back_ns == 0) {
    return give_up(Status(Code::kUnavailable,
                          "the node that plans for all hosts is gone, and runtime.wire.planner "
                          "names no other host that may lead, so the stream stops here: restart "
                          "from the last checkpoint"));
  }
  if (!state_.lead_missing()) {
    apply(LeadLost{});
    add(Say{"the node that plans for all hosts is gone, and is called again"});
    add(After{job_.lead_back_ns, Timer::kLeadBack, state_.lead_losses()});
  }
  add(CallLead{});
}

// It knows no groups but its own: first of all where ours are, for those call it then.
void Step::lead_back(const protocol::Welcome& welcome) {
  if (!state_.lead_missing()) return;
  if (welcome.run != serving()->run || welcome.term <= serving()->term) {
    return give_up(Status(Code::kUnavailable,
                          "the node that plans for all hosts has come back with another run: "
                          "restart from the last checkpoint"));
  }
  apply(LeadBack{welcome});
  add(Say{"the node that plans for all hosts is back, term " + std::to_string(welcome.term)});
  tell("lead", state_.rosters().own);
  roster_changed();
}

void Step::operator()(const Heard& input) {
  std::visit([&](const auto& control) { hear(input.peer, control); }, input.control);
}

void Step::hear(const std::string& peer, const protocol::Attach& attach) {
  if (waits(peer, attach)) {
    apply(AttachWaits{peer, attach});
    return leave(peer, /*lost=*/false);  // a host, all of whose ranks are through
  }
  part();                     // those before it have all left
  if (state_.over()) return;  // it finds that this node has ended, and starts the next
  if (refused_before(peer, attach)) return;
  const AttachBook& book = state_.book();
  if (const Status why = book.refusal(attach); !why.ok()) {
    tell(peer, protocol::Refused{why});
    // Where its job differs, the others of its attempt wait in vain and are told the same.
    if (!book.serving() && attach.job != job_.job) give_up(why, &attach);
    return;
  }
  if (const Status why = may_attach_so(job_, peer, attach.ranks); !why.ok()) {
    return tell(peer, protocol::Refused{why});
  }
  fence(attach);
  const bool later = attach.attempt > book.attempt();
  apply(TrainerAttached{peer, attach});
  if (is_follower(peer)) {  // answers to its ranks go through its node
    ProcessRoles clients{peer, 1, {}};
    for (const Rank rank : attach.ranks) clients.roles.push_back(protocol::client_address(rank));
    add(SetRoster{{{std::move(clients)}}});
    if (attach.gives.cores > 0) {
      apply(HostJoined{peer, attach.gives, attach.ranks.front()});
    }
  }
  if (later) stop_serving();
  if (serving() != nullptr) return welcome_again(peer);
  agreed();
}

// Ranks that are done with an attempt do not end it for those that are not.
bool Step::waits(const std::string& peer, const protocol::Attach& attach) const {
  const AttachBook& book = state_.book();
  if (state_.over() || state_.failure() || !book.opens_again(attach)) return false;
  if (!book.refusal(attach).ok() || !may_attach_so(job_, peer, attach.ranks).ok()) return false;
  const bool others = book.serving() && !book.attached().empty();
  return others || state_.parting() || !state_.settled();
}

void Step::fence(const protocol::Attach& attach) {
  const Status why(Code::kCancelled,
                   "attempt " + std::to_string(attach.attempt) + " has started: this one is over");
  for (const std::string& fenced : state_.book().fenced_by(attach)) {
    add(ForgetStatus{fenced});
    add(Drop{fenced, why});
  }
  for (const auto& [fenced, earlier] : state_.waiting()) add(Drop{fenced, why});
  apply(WaitingOver{});
}

// All have left an attempt that some of them want to open again.
void Step::read_on() {
  std::vector<std::pair<std::string, protocol::Attach>> waiting(state_.waiting().begin(),
                                                                state_.waiting().end());
  std::stable_sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) {
    return a.second.attempt < b.second.attempt;
  });
  OVERLORD_CHECK(state_.book().attached().empty(), "nobody is left in what they have left");
  apply(WaitingOver{});
  for (const auto& [peer, attach] : waiting) hear(peer, attach);
}

// Serving begins when all are here, if they agree.
void Step::agreed() {
  const AttachBook& book = state_.book();
  OVERLORD_CHECK(serving() == nullptr, "serving begins once");
  if (const Status differ = book.disagreement(); !differ.ok()) return give_up(differ);
  if (!book.serving()) return;
  if (job_.leads) return serve();
  call_lead();
}

void Step::call_lead() {
  if (!state_.connected().contains("lead")) return add(CallLead{});
  attach_to_lead();
}

void Step::attach_to_lead() {
  OVERLORD_CHECK(!job_.leads, "a lead follows nobody");
  const AttachBook& book = state_.book();
  tell("lead", protocol::Attach{book.attempt(), job_.job, book.state(), book.allowed(), job_.local,
                                job_.process, book.run(), job_.gives});
}

// Its link broke, or it came late to a keeper that comes again: it knows what it was told before.
// Or it was killed and knows where it was.
void Step::welcome_again(const std::string& peer) {
  OVERLORD_CHECK(state_.book().attached().contains(peer), "who is welcomed has attached");
  if (refuse_return(peer)) return;
  tell(peer, state_.rosters().all());
  if (serving()->rolling && !serving()->trainers_told) return apply(WelcomeWaits{peer});
  if (!serving()->trees.empty()) tell(peer, serving()->trees.back());
  if (!serving()->welcomed) return;
  tell(peer, welcome_for(state_.book().attached().at(peer)));
  for (const auto& [id, note] : state_.notes()) tell(peer, note);
}

bool Step::refuse_return(const std::string& peer) {
  const AttachBook::Trainer& trainer = state_.book().attached().at(peer);
  if (trainer.returns == 0) return false;
  const Status why = may_return(job_, state_, trainer.ranks);
  if (!why.ok()) tell(peer, protocol::Refused{why});
  return !why.ok();
}

// The attempt that it belongs to has failed.
bool Step::refused_before(const std::string& peer, const protocol::Attach& attach) {
  if (const auto& failure = state_.failure()) {
    tell(peer, protocol::Refused{failure->why()});
    apply(FailureTold{attach.ranks});
    return true;
  }
  const auto& earlier = state_.earlier_failure();
  if (!earlier) return false;
  const bool late = earlier->awaited_by(attach.ranks, attach.attempt);
  if (late) {
    tell(peer, protocol::Refused{earlier->why()});
    apply(EarlierFailureTold{attach.ranks});
  } else {
    apply(FailureForgotten{});
  }
  return late;
}

void Step::hear(const std::string& peer, const protocol::Detach&) {
  if (state_.waiting().contains(peer)) apply(WaiterLeft{peer});
  if (is_joined_host(peer)) return host_left(peer, /*lost=*/false);
  leave(peer, /*lost=*/false);
}

// Processes tell of their work once a second and are killed at the end: before that they are asked
// once more, for a run may have lasted less.
void Step::leave(const std::string& peer, bool lost) {
  if (!state_.book().attached().contains(peer)) return;
  host_left(peer, lost);
  apply(TrainerLeft{peer});
  add(ForgetStatus{peer});
  look_at_tree();
  if (!state_.book().attached().empty() || state_.parting()) return;
  PartingBegun parting;
  if (serving() != nullptr && !state_.failure()) {
    for (const ProcessRoles& group : serving()->supervisor.groups()) {
      if (!state_.connected(group)) continue;
      parting.unheard.insert(group.name);
      tell(group.name, protocol::StatusAsked{});
    }
  }
  apply(parting);
  if (parting.unheard.empty()) return part();
  add(After{kLastWordsNs, Timer::kLastWords, state_.partings()});
}

void Step::hear(const std::string& peer, const protocol::StatusTold& told) {
  if (!state_.parting() || !state_.parting()->contains(peer)) return;
  add(NoteStatus{peer, told.status});
  apply(LastWordsHeard{peer});
  if (state_.parting()->empty()) part();
}

void Step::part() {
  if (!state_.parting()) return;
  apply(Parted{});
  if (!job_.leads && serving() != nullptr) add(TellUnpacking{});
  if (!state_.waiting().empty()) return read_on();
  if (!job_.stays) return end();
  begin_anew();
}

void Step::hear(const std::string& peer, const protocol::Beat& beat) {
  if (serving() != nullptr) {
    if (const ProcessRoles* group = serving()->supervisor.find(peer)) {
      apply(GroupHeard{{peer, group->generation, beat.stuck_ms}, now_ns_});
    }
  }
  if (!beat.status.empty()) add(NoteStatus{peer, beat.status});
  if (is_trainer(peer)) tell(peer, protocol::Beat{});
}

void Step::hear(const std::string&, const protocol::RowNoted& note) {
  apply(RowHeard{note});
  tell_trainers(note);
}

// --- Serving ------------------------------------------------------------------------------------

// Nobody is told where roles live before it is known what lives already.
void Step::serve() {
  apply(ServingBegun{});
  const AttachBook& book = state_.book();
  add(Begin{book.attempt(), job_.leads ? book.state() : state_.lead()->state, book.allowed(),
            state_.rosters().all(), book.run()});
}

void Step::operator()(const Begun& input) {
  if (serving() == nullptr) return;
  if (input.superseded) return (*this)(Superseded{input.status});
  if (!input.status.ok()) return give_up(input.status);
  if (job_.leads) {
    apply(ServingPrepared{input.state, input.versions, input.run, input.term});
  } else {
    const protocol::Welcome& lead = *state_.lead();
    apply(ServingPrepared{input.state, lead.versions, lead.run, lead.term});
  }
  for (const TreePlaced& placed : input.trees) apply(TreeBegun{placed, true});
  for (const protocol::Address& role : input.retired) apply(RoleRetired{role});
  plan::GroupHomes living;
  for (const runtime::GroupPlacement& group : input.running) living[group.name] = group.host;
  apply(GroupsHomed{wanted_homes(state_, living)});
  for (const std::string& name : state_.processes()) place(name, input.running);
  for (const ProcessRoles& group : serving()->supervisor.groups()) {
    if (state_.connected(group)) {
      greet(group);
    } else {  // a link that is left is of the dead: the next one is told of trees before rosters
      apply(PeerLost{group.name});
    }
  }
  groups_changed();
  look_at_tree();
}

// What lives already goes on in its generation.
void Step::place(const std::string& name, const std::vector<runtime::GroupPlacement>& running) {
  const auto lives = std::find_if(running.begin(), running.end(),
                                  [&](const auto& group) { return group.name == name; });
  const bool lived = lives != running.end();
  const auto home = serving()->homes.find(name);
  const std::string wanted = home == serving()->homes.end() ? "" : home->second.wanted;
  apply(GroupPlaced{name, lived ? lives->host : wanted, now_ns_});
  if (lived) return apply(GroupAdopted{name, lives->generation});
  add(Place{{name, serving()->supervisor.find(name)->generation, wanted}});
}

void Step::stop_serving() {
  if (serving() == nullptr) return;
  for (const ProcessRoles& group : state_.rosters().all().processes) {  // of other hosts too
    if (!state_.over() && state_.connected().contains(group.name)) {
      add(Drop{group.name, Status(Code::kCancelled, "the attempt is over")});
      apply(PeerLost{group.name});
    }
    add(ForgetStatus{group.name});
  }
  add(StopServing{});
  apply(ServingStopped{});
}

void Step::operator()(const Ended& input) {
  if (serving() == nullptr || state_.over()) return;
  const Supervisor::Decision decision = serving()->supervisor.judge(input.end, now_ns_);
  if (!decision.give_up.ok()) return give_up(decision.give_up);
  if (!decision.restart) return;
  const std::string& name = input.end.name;
  add(Say{name + " ended with " + input.end.how + " and is started again, generation " +
          std::to_string(decision.restart->generation)});
  promote_from(name);
  apply(GroupEnded{input.end, now_ns_});
  groups_changed();  // first: what is sent to the new one must not go to the dead
  place(name, {});
}

void Step::operator()(const Watched& input) {
  if (serving() == nullptr) return;
  for (const std::string& name : serving()->supervisor.silent(now_ns_, input.starved)) {
    condemn(name, "says nothing");
  }
  for (const std::string& name : serving()->supervisor.stuck()) {
    if (!state_.promotions_from(name).empty()) condemn(name, "comes no further");
  }
}

void Step::condemn(const std::string& name, const std::string& why) {
  add(Say{name + " " + why + " and is killed"});
  apply(GroupCondemned{name});
  add(Kill{name});
  if (promote_from(name)) groups_changed();
}

// As soon as it is lost, not when it is there again: that takes a process's start, and whoever has
// a shadow has paid for not waiting. Should it live on after all, its generation is over.
bool Step::promote_from(const std::string& lost) {
  const std::vector<Promotion> moves = state_.promotions_from(lost);
  for (const Promotion& move : moves) {
    apply(SlotPromoted{move});
    add(Say{text_of(move, job_.welcome.source_names)});
  }
  return !moves.empty();
}

void Step::roster_changed() {
  if (serving() == nullptr) return;
  const HostRosters rosters = state_.rosters();
  const protocol::Roster now = rosters.all();
  add(SetRoster{now});
  for (const std::string& name : state_.processes()) tell(name, now);
  if (job_.leads || serving()->welcomed) tell_trainers(now);
  welcome_all();
}

void Step::groups_changed() {
  roster_changed();
  if (serving() != nullptr && !job_.leads) tell("lead", state_.rosters().own);
}

void Step::hear(const std::string& peer, const protocol::Roster& roster) {
  if (serving() == nullptr && job_.leads) return;
  apply(RosterHeard{peer, roster});
  if (serving() == nullptr) return add(SetRoster{state_.rosters().all()});
  roster_changed();
}

void Step::hear(const std::string& peer, const protocol::Welcome& welcome) {
  if (job_.leads || peer != "lead" || state_.failure() || state_.over()) return;
  if (serving() != nullptr) return lead_back(welcome);
  apply(LeadAnswered{welcome});
  serve();
}

void Step::hear(const std::string& peer, const protocol::FedBack& fed_back) {
  if (peer == "lead") tell_trainers(fed_back);
}

void Step::welcome_all() {
  if (serving()->welcomed) return;
  const HostRosters rosters = state_.rosters();
  // Followers are told first: their constructors may be what our own ranks wait for.
  for (const auto& [peer, trainer] : state_.book().attached()) {
    if (!job_.leads || !is_follower(peer) || serving()->followers.contains(peer)) continue;
    apply(FollowerWelcomed{peer});
    tell(peer, welcome_for(trainer));
    tell(peer, rosters.all());
  }
  if (!rosters.knows_constructors(serving()->local, *job_.views)) return;
  for (const ProcessRoles& group : serving()->supervisor.groups()) {
    if (!state_.connected(group)) return;
  }
  apply(TrainersWelcomed{});
  for (const auto& [peer, trainer] : state_.book().attached()) {
    if (is_follower(peer) || refuse_return(peer)) continue;
    tell(peer, welcome_for(trainer));
    for (const auto& [id, note] : state_.notes()) tell(peer, note);
  }
}

// What a rank has said before it was killed is not what the next one says.
protocol::Welcome Step::welcome_for(const AttachBook::Trainer& trainer) const {
  protocol::Welcome out = job_.welcome;
  out.host = job_.host();
  for (const Rank rank : trainer.ranks) out.views.push_back(job_.views->by_rank[rank]);
  out.constructors = state_.rosters().constructors();
  out.versions = serving()->versions;
  if (trainer.returns > 0) out.versions.generation = state_.first_generation() + trainer.returns;
  out.state = serving()->state;
  out.run = serving()->run;
  out.term = serving()->term;
  return out;
}

// --- Trees --------------------------------------------------------------------------------------
// Role processes first, which make its constructors; then the trainers, whose clients ask them at
// once; then the planner may plan for it. Whoever lives is waited for.

void Step::operator()(const TreeChanged& input) {
  if (serving() == nullptr) return;
  const auto& trees = serving()->trees;
  if (!trees.empty() && trees.back().version >= input.placed.tree.version) {
    // A planner that has come back does not know whether everybody was ready.
    if (trees.back().version == input.placed.tree.version && !serving()->rolling) {
      add(TreeReady{input.placed.tree.version});
    }
    return;
  }
  const std::vector<std::string> before = state_.processes();
  apply(TreeBegun{input.placed});
  for (const std::string& name : state_.processes()) {
    if (std::find(before.begin(), before.end(), name) == before.end()) place(name, {});
  }
  groups_changed();
  for (const std::string& name : state_.processes()) tell(name, input.placed.tree);
  look_at_tree();
}

// It has connected and knows nothing: of trees it is told before it makes its roles.
void Step::greet(const ProcessRoles& group) {
  for (const protocol::TreeTold& tree : serving()->trees) tell(group.name, tree);
}

void Step::hear(const std::string& peer, const protocol::TreeTaken& taken) {
  if (serving() == nullptr) return;
  apply(TreeHeld{peer, taken.version});
  look_at_tree();
}

void Step::look_at_tree() {
  if (serving() == nullptr || !serving()->rolling) return;
  if (!state_.lacking_tree(state_.processes()).empty()) return;
  const protocol::TreeTold& newest = serving()->trees.back();
  if (!serving()->trainers_told) {
    const std::set<std::string> late = serving()->unwelcomed;
    apply(TreeToldToTrainers{});
    tell_trainers(newest);
    for (const std::string& peer : late) welcome_again(peer);
  }
  if (!state_.lacking_tree(state_.trainers()).empty()) return;
  apply(TreeDone{});
  add(TreeReady{newest.version});
}

void Step::operator()(const ConstructorRetired& input) {
  if (serving() == nullptr) return;
  apply(RoleRetired{input.constructor});
  groups_changed();
}

void Step::hear(const std::string& peer, const protocol::TreeAsked& asked) {
  const Result<model::Mesh> mesh = model::Mesh::make(asked.axes);
  if (!mesh.ok()) return tell(peer, protocol::TreeAnswered{asked.question, mesh.status(), 0});
  if (serving() != nullptr && job_.alone) {
    return add(RebuildTree{peer, asked.question, *mesh, asked.step, asked.ranks});
  }
  const Status why = invalid_argument(
      "mesh: it is changed while the job runs where one host has all ranks; restart from a "
      "state, which resumes on any mesh");
  tell(peer, protocol::TreeAnswered{asked.question, why, 0});
}

std::vector<Effect> react(const KeeperJob& job, KeeperState& state, const Input& input,
                          int64_t now_ns) {
  Step step(job, state, now_ns);
  std::visit(step, input);
  return step.take();
}

}  // namespace overlord::keeper
