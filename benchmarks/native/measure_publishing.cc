#include "measure_publishing.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "overlord/model/plan_index.h"
#include "overlord/plan/place/row_dealing.h"
#include "overlord/runtime/descriptor.h"
#include "overlord/transport/carrier.h"

namespace overlord::bench {
namespace {

using protocol::Address;

// Writes at once, on the thread that sends, whose CPU is counted.
class SocketLink final : public transport::Link {
 public:
  explicit SocketLink(runtime::Descriptor socket) : socket_(std::move(socket)) {}

  void send(std::string frame, std::vector<runtime::Descriptor>) override {
    write(frame.data(), frame.size());
  }
  void send_held(const runtime::Bytes& frame) override { write(frame.data, frame.size); }
  void close() override { ::shutdown(socket_.get(), SHUT_RDWR); }

 private:
  void write(const char* data, size_t size) {
    for (size_t done = 0; done < size;) {
      const ssize_t sent = ::send(socket_.get(), data + done, size - done, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return;
      done += static_cast<size_t>(sent);
    }
  }

  const runtime::Descriptor socket_;
};

// Empties all sockets until each is closed, on a thread of its own.
class Drain {
 public:
  ~Drain() {
    if (thread_.joinable()) thread_.join();
  }
  void add(runtime::Descriptor socket) { sockets_.push_back(std::move(socket)); }
  void start() {
    thread_ = std::thread([this] { run(); });
  }

 private:
  void run() {
    std::vector<pollfd> open;
    for (const runtime::Descriptor& socket : sockets_) open.push_back({socket.get(), POLLIN, 0});
    std::vector<char> bytes(1 << 20);
    while (!open.empty()) {
      if (::poll(open.data(), open.size(), -1) < 0 && errno != EINTR) return;
      std::erase_if(open, [&](const pollfd& one) {
        return one.revents != 0 && ::read(one.fd, bytes.data(), bytes.size()) <= 0;
      });
    }
  }

  std::vector<runtime::Descriptor> sockets_;
  std::thread thread_;
};

class Audience {
 public:
  Audience(const model::JobSpec& spec, uint32_t buckets, uint32_t loader_processes)
      : carrier_(options(spec)) {
    for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
      constructors_.push_back(protocol::constructor_address(bucket));
      add("constructors-" + std::to_string(bucket), {constructors_.back()});
    }
    std::vector<std::vector<Address>> dealt(loader_processes);
    for (SourceIndex s = 0; s < spec.sources.size(); ++s) {
      dealt[s % loader_processes].push_back(protocol::loader_address(s, 0));
    }
    for (uint32_t i = 0; i < loader_processes; ++i) add("loaders-" + std::to_string(i), dealt[i]);
    drain_.start();
  }

  // As the planner role does it.
  void hear(const model::PlanPtr& plan, uint32_t sources) {
    const auto index = model::PlanIndex::make(*plan, sources);
    const std::vector<uint32_t> slots(sources, 1);
    auto dealt = plan::deal_rows(*plan, slots, nullptr, index.get());
    const protocol::PlanPublished published{plan, index};
    for (const Address& constructor : constructors_) send(*plan, constructor, published);
    for (plan::DealtRows& one : dealt) {
      send(*plan, protocol::loader_address(one.slot.source, one.slot.slot),
           protocol::RowsPlanned{std::move(one.rows)});
    }
  }
  transport::CarrierStats stats() const { return carrier_.stats(); }

 private:
  static transport::CarrierOptions options(const model::JobSpec& spec) {
    transport::CarrierOptions out;
    out.name = "node";
    out.plans.sources = static_cast<uint32_t>(spec.sources.size());
    out.deliver = [](const protocol::Envelope&) {};
    return out;
  }
  void add(const std::string& name, const std::vector<Address>& roles) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    drain_.add(runtime::Descriptor(ends[1]));
    protocol::Hello hello;
    hello.name = name;
    hello.roles = roles;
    carrier_.connect(hello, std::make_shared<SocketLink>(runtime::Descriptor(ends[0])),
                     /*remote=*/true);
  }
  void send(const model::Plan& plan, const Address& to, protocol::Message message) {
    carrier_.send({plan.versions, protocol::planner_address(), to, std::move(message)});
  }

  Drain drain_;  // ends behind the carrier, which closes the sockets
  transport::Carrier carrier_;
  std::vector<Address> constructors_;
};

}  // namespace

Result<PublishedPlans> publish_plans(const model::JobSpec& spec, const model::Mesh& mesh,
                                     std::span<const uint32_t> lengths, uint32_t steps,
                                     uint32_t loader_processes) {
  const model::DeliverySpec delivery;
  OVERLORD_RETURN_IF_ERROR(plan::check_fit(spec, mesh, delivery));
  OVERLORD_RETURN_IF_ERROR(plan::check_strategy(spec, mesh, delivery));
  MadeUpPlanner planner(spec, mesh, delivery, lengths);
  Audience audience(spec, plan::bucket_count(mesh), loader_processes);
  PublishedPlans out;
  while (out.publish_ms.size() < steps) {
    OVERLORD_RETURN_IF_ERROR(planner.plan_next(/*explain=*/false, &out.planned));
    const auto plan = std::make_shared<const model::Plan>(*planner.plan());
    const int64_t begin_ns = thread_cpu_ns();
    audience.hear(plan, static_cast<uint32_t>(spec.sources.size()));
    out.publish_ms.push_back(static_cast<double>(thread_cpu_ns() - begin_ns) / 1e6);
  }
  const transport::CarrierStats stats = audience.stats();
  out.bytes = stats.bytes_sent;
  out.frames = stats.frames_sent;
  return out;
}

}  // namespace overlord::bench
