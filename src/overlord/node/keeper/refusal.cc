#include "overlord/node/keeper/refusal.h"

#include <atomic>
#include <future>

#include "overlord/transport/carrier.h"
#include "overlord/transport/endpoint.h"

namespace overlord::node {
namespace {

constexpr int64_t kStaysNs = 30'000'000'000;  // for ranks that have not come yet

std::vector<Rank> ranks_of(const protocol::Hello& hello) {
  std::vector<Rank> ranks;
  for (const protocol::Address& role : hello.roles) ranks.push_back(role.index);
  return ranks;
}

}  // namespace

void run_refusal(const KeeperArguments& arguments, keeper::FailureBook failure, bool unknown,
                 LifeLine& line) {
  if (failure.all_told() && !unknown) return;
  std::promise<void> over;
  std::atomic<bool> ended{false};
  const auto end = [&] {
    if (!ended.exchange(true)) over.set_value();
  };
  transport::CarrierOptions carrier_options;
  carrier_options.name = "node";
  carrier_options.deliver = [](const protocol::Envelope&) {};
  transport::Carrier carrier(std::move(carrier_options));
  transport::EndpointOptions options;
  options.directory = arguments.directory;
  options.self.name = "node";
  options.wire_name = "lead";
  options.admit = [&](const protocol::Hello& hello) -> Status {
    if (!hello.name.starts_with("rank-")) return failure.why();
    const std::optional<Status> why = failure.tell(ranks_of(hello), hello.attempt);
    // One of another try is let in, and finds that this node has ended: it starts the next.
    if (!why || (failure.all_told() && !unknown)) end();
    return why.value_or(Status());
  };
  Result<transport::WireSecurity> security = read_security(arguments.wire);
  const bool wire = arguments.wire.leads && security.ok();
  if (wire) options.security = std::move(*security);
  options.pool = runtime::BufferPool::make(1 << 20);
  Result<std::unique_ptr<transport::Endpoint>> endpoint =
      transport::Endpoint::open(std::move(options), &carrier);
  if (!endpoint.ok()) return;
  if (wire) static_cast<void>((*endpoint)->listen_wire(arguments.wire.own()));
  if (!(*endpoint)->listen("node").ok()) return;
  (*endpoint)->post_after(kStaysNs, end);
  if (!line.watch(arguments.owner(), [&](const Status&) { end(); }).ok()) end();
  over.get_future().wait();
  line.unwatch();
  (*endpoint)->close();
}

}  // namespace overlord::node
