#include "overlord/node/hosts/joined_host.h"

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <future>
#include <optional>
#include <utility>

#include "overlord/node/drawn_once.h"
#include "overlord/node/hosts/lead_turn.h"
#include "overlord/node/hosts/lent_groups.h"
#include "overlord/node/hosts/near_files.h"
#include "overlord/node/hosts/usable_cores.h"
#include "overlord/roles/keeper/peer_names.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/carrier.h"
#include "overlord/transport/endpoint.h"

namespace overlord::node {
namespace {

constexpr int64_t kLookNs = 250'000'000;  // at what its groups get

// No two that join have the same, nor two containers of one name.
std::string own_name() {
  char name[HOST_NAME_MAX + 1] = "host";
  gethostname(name, sizeof(name) - 1);
  return "joined-" + std::string(name) + "@" + drawn_once().substr(0, 8);
}

class JoinedHost {
 public:
  JoinedHost(const KeeperArguments& arguments, const protocol::JobFile& job)
      : arguments_(arguments), job_(job), carrier_(carrier_options()) {}
  ~JoinedHost() {
    if (endpoint_) endpoint_->close();
  }

  Status open() {
    transport::EndpointOptions options;
    options.directory = arguments_.directory;
    options.self.name = own_name();
    options.wire_name = options.self.name;
    options.connected = [this](const protocol::Hello& hello) {
      if (hello.name != "lead") return;
      say("the lead has answered");
      join();
    };
    options.lost = [this](const std::string& peer) {
      if (peer != "lead") return;
      turn_.lost(clock_.now_ns());
      look_for_lead("the lead is gone");
    };
    options.admit = [this](const protocol::Hello& hello) { return not_the_lead(hello); };
    options.refused = [this](const std::string&, const Status& why) { end(why); };
    OVERLORD_TRY(options.security, read_security(arguments_.wire));
    options.limits = wire_limits(arguments_.wire);
    options.pool = runtime::BufferPool::make(1 << 20);
    OVERLORD_TRY(endpoint_, transport::Endpoint::open(std::move(options), &carrier_));
    groups_.emplace(lent_to_lead(arguments_, job_, carrier_, *endpoint_));
    if (!arguments_.wire.at.empty()) {
      OVERLORD_RETURN_IF_ERROR(endpoint_->listen_wire(arguments_.wire.at).status());
    }
    endpoint_->post([this] {
      look_for_lead("joins");
      look();
    });
    return {};
  }
  Status wait() { return ended_.get_future().get(); }
  // After wait(): the claim with which this host is to lead; 0: it is not to.
  uint32_t claim() const { return claim_; }
  // Any thread.
  void end_because(const Status& why) {
    endpoint_->post([this, why] { end(why); });
  }

 private:
  transport::CarrierOptions carrier_options() {
    transport::CarrierOptions out;
    out.name = "joined";
    out.deliver = [](const protocol::Envelope&) {};
    out.control = [this](const std::string&, const protocol::Control& control) {
      if (const auto* asked = std::get_if<protocol::GroupAsked>(&control)) groups_->hear(*asked);
      if (const auto* unasked = std::get_if<protocol::GroupUnasked>(&control)) {
        groups_->hear(*unasked);
      }
      if (const auto* refused = std::get_if<protocol::Refused>(&control)) end(refused->status);
    };
    return out;
  }
  // One that may lead shows that it sees the same folder.
  void join() {
    protocol::Join join{arguments_.job, arguments_.gives};
    join.gives.cores = usable_cores();
    join.gives.leads_at = arguments_.wire.at;
    note_files(job_.spec, &join.gives);
    if (arguments_.claims) {
      const Result<storage::LeadClaim> newest = arguments_.claims->newest();
      Result<std::string> mark = arguments_.claims->leave_mark(drawn_once());
      if (!newest.ok() || !mark.ok()) return end(newest.ok() ? mark.status() : newest.status());
      turn_.answered(newest->number);
      join.mark = std::move(*mark);
    }
    tell(join);
  }
  // Who calls here finds no other that leads. One that has ranks needs one.
  Status not_the_lead(const protocol::Hello& hello) {
    const Status why(Code::kUnavailable, "the host at " + arguments_.wire.at + " does not lead");
    if (!arguments_.claims || over_ || !keeper::is_follower(hello.name)) return why;
    const Result<storage::LeadClaim> newest = arguments_.claims->newest();
    if (!newest.ok()) return end(newest.status()), why;
    const auto number = turn_.asked(newest->number, clock_.now_ns());
    if (!number) return why;
    const Result<bool> claimed = arguments_.claims->claim(*number, arguments_.wire.at);
    if (!claimed.ok()) return end(claimed.status()), why;
    if (!*claimed) return why;
    say("the lead is lost, and this host takes over, claim " + std::to_string(*number));
    claim_ = *number;
    return end({}), why;
  }
  void tell(const protocol::Control& control) { carrier_.send_control("lead", control); }
  void say(const std::string& text) {
    std::fprintf(stderr, "%s (%s)\n", text.c_str(), arguments_.wire.lead.c_str());
  }
  // Whatever it has asked for is of no use to another.
  void look_for_lead(const std::string& why) {
    if (over_) return;
    say(why);
    groups_->stop();
    endpoint_->call("lead", arguments_.wire.lead);
  }
  void look() {
    if (over_) return;
    groups_->look(clock_.now_ns());
    endpoint_->post_after(kLookNs, [this] { look(); });
  }
  void end(const Status& why) {
    if (std::exchange(over_, true)) return;
    tell(protocol::Detach{});
    ended_.set_value(why);
  }

  const KeeperArguments arguments_;
  const protocol::JobFile& job_;
  transport::Carrier carrier_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  std::optional<LentGroups> groups_;
  runtime::SteadyClock clock_;
  bool over_ = false;  // the loop's
  uint32_t claim_ = 0;
  LeadTurn turn_{clock_.now_ns()};
  std::promise<Status> ended_;
};

}  // namespace

Result<uint32_t> run_joined_host(const KeeperArguments& arguments, const protocol::JobFile& job,
                                 LifeLine& line) {
  JoinedHost host(arguments, job);
  OVERLORD_RETURN_IF_ERROR(host.open());
  OVERLORD_RETURN_IF_ERROR(
      line.watch(arguments.owner(), [&host](const Status&) { host.end_because({}); }));
  const Status status = host.wait();
  line.unwatch();
  OVERLORD_RETURN_IF_ERROR(status);
  return host.claim();
}

}  // namespace overlord::node
