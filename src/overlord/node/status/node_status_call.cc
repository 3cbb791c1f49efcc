#include "overlord/node/status/node_status_call.h"

#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>

#include "overlord/transport/carrier.h"
#include "overlord/transport/endpoint.h"

namespace overlord::node {

Result<NodeStatus> ask_node(const std::string& directory, int64_t timeout_ms) {
  std::promise<Result<NodeStatus>> answer;
  bool answered = false;  // the loop's thread only
  const auto tell = [&](Result<NodeStatus> what) {
    if (std::exchange(answered, true)) return;
    answer.set_value(std::move(what));
  };
  transport::CarrierOptions carrier_options;
  carrier_options.name = "top-" + std::to_string(getpid());
  carrier_options.deliver = [](const protocol::Envelope&) {};
  carrier_options.control = [&](const std::string&, protocol::Control control) {
    if (const auto* told = std::get_if<protocol::StatusTold>(&control)) {
      tell(decode_node_status(told->status));
    }
  };
  transport::Carrier carrier(carrier_options);
  transport::EndpointOptions options;
  options.directory = directory;
  options.self.name = carrier_options.name;
  options.connected = [&](const protocol::Hello&) {
    carrier.send_control("node", protocol::StatusAsked{});
  };
  options.lost = [&](const std::string&) {
    tell(Status(Code::kUnavailable, "the node in " + directory + " has hung up"));
  };
  options.refused = [&](const std::string&, const Status& why) { tell(why); };
  OVERLORD_TRY(auto endpoint, transport::Endpoint::open(std::move(options), &carrier));
  endpoint->call("node");
  std::future<Result<NodeStatus>> waiting = answer.get_future();
  const auto state = waiting.wait_for(std::chrono::milliseconds(timeout_ms));
  endpoint->close();
  if (state != std::future_status::ready && !answered) {
    return Status(Code::kUnavailable, "no node answers in " + directory);
  }
  return waiting.get();
}

}  // namespace overlord::node
