#include "overlord/transport/endpoint.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <future>

#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/carrier_peer.h"

namespace overlord::transport {
namespace {

constexpr int64_t kCallAgainNs = 10'000'000;
constexpr int64_t kCallNextNs = 100'000'000;    // one that has refused us is there, and busy
constexpr int64_t kLastWordNs = 1'000'000'000;  // for another host to hear why it is sent away
constexpr auto kControlFrame = static_cast<char>(kControl);

runtime::Bytes bytes_of(std::string text) {
  auto held = std::make_shared<const std::string>(std::move(text));
  return {held, held->data(), held->size()};
}

// Of addresses with commas between.
std::string address_in_turn(const std::string& addresses, size_t turn) {
  size_t count = 1;
  for (const char one : addresses) count += one == ',' ? 1 : 0;
  size_t at = 0;
  for (size_t skip = turn % count; skip > 0; --skip) at = addresses.find(',', at) + 1;
  return addresses.substr(at, addresses.find(',', at) - at);
}

std::string control_frame(const protocol::Control& control) {
  return std::string(1, kControlFrame) + protocol::encode_control(control);
}

}  // namespace

// A UnixLink as the carrier knows links.
class Endpoint::Adapter final : public Link {
 public:
  explicit Adapter(std::shared_ptr<UnixLink> link) : link_(std::move(link)) {}

  void send(std::string frame, std::vector<runtime::Descriptor> descriptors) override {
    OutgoingFrame out;
    out.pieces.push_back(bytes_of(std::move(frame)));
    for (runtime::Descriptor& descriptor : descriptors) {
      out.descriptors.push_back(std::make_shared<const runtime::Descriptor>(std::move(descriptor)));
    }
    send(std::move(out));
  }
  void send_held(const runtime::Bytes& frame) override { send(OutgoingFrame{{frame}, {}}); }
  void close() override { link_->close(); }

 private:
  // A peer that takes nothing until its queue is full is as good as dead; a closed link says so by
  // itself.
  void send(OutgoingFrame frame) {
    if (link_->send(std::move(frame)).code() == Code::kResource) link_->close();
  }

  const std::shared_ptr<UnixLink> link_;
};

struct Endpoint::Connection {
  std::shared_ptr<UnixLink> link;  // null: over the wire
  LinkPtr adapter;
  std::string peer;  // whom we called, or who has said so
  bool called = false;
  bool greeted = false;
  bool refused = false;  // and called again, where there is somebody else
  bool remote = false;

  // Sends what is on its way, then closes.
  void finish() {
    if (link) return link->finish();
    if (adapter) adapter->close();
  }
  void close() {
    if (adapter) adapter->close();
  }
};

// Tasks for later, on the loop's thread.
class Endpoint::Timers final : public Watcher {
 public:
  static Result<std::shared_ptr<Timers>> make(const std::shared_ptr<EventLoop>& loop) {
    runtime::Descriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!timer.valid()) return Status(Code::kResource, "timerfd_create: no timer");
    auto timers = std::make_shared<Timers>(std::move(timer));
    std::promise<Status> watching;
    loop->post([&] {
      Result<EventLoop::Token> token = loop->watch(timers->timer_.get(), EPOLLIN, timers);
      watching.set_value(token.status());
    });
    OVERLORD_RETURN_IF_ERROR(watching.get_future().get());
    return timers;
  }
  explicit Timers(runtime::Descriptor timer) : timer_(std::move(timer)) {}

  void add(int64_t when_ns, runtime::Task task) {
    const bool first = tasks_.empty() || when_ns < tasks_.begin()->first;
    tasks_.emplace(when_ns, std::move(task));
    if (first) arm(when_ns);
  }

  void ready(uint32_t) override {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(timer_.get(), &count, sizeof(count));
    const int64_t now = runtime::steady_now_ns();
    while (!tasks_.empty() && tasks_.begin()->first <= now) {
      const runtime::Task task = std::move(tasks_.begin()->second);
      tasks_.erase(tasks_.begin());
      task();
    }
    if (!tasks_.empty()) arm(tasks_.begin()->first);
  }
  void stopped() override { tasks_.clear(); }

 private:
  void arm(int64_t when_ns) {
    itimerspec spec{};
    spec.it_value.tv_sec = when_ns / 1'000'000'000;
    spec.it_value.tv_nsec = when_ns % 1'000'000'000;
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
  }

  const runtime::Descriptor timer_;
  std::multimap<int64_t, runtime::Task> tasks_;
};

Result<std::unique_ptr<Endpoint>> Endpoint::open(EndpointOptions options, Carrier* carrier) {
  std::unique_ptr<Endpoint> endpoint(new Endpoint(std::move(options), carrier));
  OVERLORD_RETURN_IF_ERROR(endpoint->prepare());
  return endpoint;
}

Status Endpoint::prepare() {
  OVERLORD_TRY(thread_, LoopThread::start("ol-links"));
  loop_ = thread_->loop();
  OVERLORD_TRY(timers_, Timers::make(loop_));
  return {};
}

Endpoint::~Endpoint() { close(); }

void Endpoint::close() {
  if (!thread_) return;
  closing_ = true;
  if (listener_) listener_->close();
  // What was sent before goes out: a peer should hear why.
  std::promise<void> asked;
  const bool alive = loop_->post([&] {
    for (const auto& [peer, connection] : talking_) connection->finish();
    asked.set_value();
  });
  if (alive) asked.get_future().wait();
  if (wire_) wire_->close();
  {
    const std::lock_guard lock(callers_mutex_);
    for (auto& [peer, caller] : callers_) caller.join();
    callers_.clear();
  }
  thread_.reset();
  timers_.reset();
  talking_.clear();
  buried_.clear();
}

void Endpoint::post(runtime::Task task) { loop_->post(std::move(task)); }

void Endpoint::post_after(int64_t delay_ns, runtime::Task task) {
  const int64_t when_ns = runtime::steady_now_ns() + delay_ns;
  loop_->post([timers = timers_, when_ns, task = std::move(task)]() mutable {
    timers->add(when_ns, std::move(task));
  });
}

Status Endpoint::listen(const std::string& name) {
  OVERLORD_TRY(SocketDirectory directory, SocketDirectory::find(options_.directory));
  ListenOptions options;
  options.socket = name;
  options.link.name = "a caller of " + name;
  OVERLORD_TRY(listener_,
               UnixListener::listen(loop_, directory, nullptr, options, [this](UnixLink& link) {
                 auto connection = std::make_shared<Connection>();
                 connection->link = link.shared_from_this();
                 connection->adapter = std::make_shared<Adapter>(connection->link);
                 return callbacks_for(connection);
               }));
  return {};
}

LinkCallbacks Endpoint::callbacks_for(const ConnectionPtr& connection) {
  LinkCallbacks callbacks;
  callbacks.received = [this, connection](UnixLink&, ReceivedFrame frame) {
    on_frame(connection, std::move(frame));
  };
  callbacks.closed = [this, connection](UnixLink&, const Status& why) {
    on_closed(connection, why);
    connection->link.reset();  // each holds the other until here
    connection->adapter.reset();
  };
  return callbacks;
}

void Endpoint::call(const std::string& peer, const std::string& wire) {
  loop_->post([this, peer, wire] {
    const auto [found, fresh] = calling_.insert({peer, wire});
    found->second = wire;
    if (fresh) try_call(peer);
  });
}

void Endpoint::call_again(const std::string& peer) {
  if (!calling_.contains(peer)) return;
  ++turns_[peer];
  timers_->add(runtime::steady_now_ns() + kCallAgainNs, [this, peer] { try_call(peer); });
}

// False: there is nobody else to call.
bool Endpoint::call_next(const std::string& peer, const Status& why) {
  const auto called = calling_.find(peer);
  if (called == calling_.end() || why.code() != Code::kUnavailable) return false;
  if (called->second.find(',') == std::string::npos) return false;
  ++turns_[peer];
  timers_->add(runtime::steady_now_ns() + kCallNextNs, [this, peer] { try_call(peer); });
  return true;
}

protocol::Hello Endpoint::self_for(const Connection& connection) const {
  protocol::Hello self = options_.self;
  if (connection.remote && !options_.wire_name.empty()) self.name = options_.wire_name;
  return self;
}

// Frames and closings of the wire come on threads of its own; everything here is the loop's.
WireCallbacks Endpoint::wire_callbacks(const ConnectionPtr& connection) {
  return {[this, connection, loop = loop_](runtime::Bytes frame) {
            loop->post([this, connection, frame = std::move(frame)]() mutable {
              on_frame(connection, {std::move(frame), {}});
            });
          },
          [this, connection, loop = loop_](const Status& why) {
            loop->post([this, connection, why] {
              on_closed(connection, why);
              // Its threads may be in a call for seconds: they are waited for at the end, not here.
              buried_.push_back(std::move(connection->adapter));
            });
          }};
}

Result<std::string> Endpoint::listen_wire(const std::string& address) {
  OVERLORD_TRY(wire_, WireServer::listen(address, options_.security, options_.limits,
                                         [this](const LinkPtr& link, const std::string&) {
                                           auto connection = std::make_shared<Connection>();
                                           connection->adapter = link;
                                           connection->remote = true;
                                           return wire_callbacks(connection);
                                         }));
  return wire_->address();
}

void Endpoint::call_wire(const std::string& peer, const std::string& address) {
  const std::lock_guard lock(callers_mutex_);
  if (closing_) return;
  std::thread& caller = callers_[peer];
  if (caller.joinable()) caller.join();  // its last word was that it has failed
  caller = std::thread([this, peer, address] {
    auto connection = std::make_shared<Connection>();
    connection->peer = peer;
    connection->called = true;
    connection->remote = true;
    Result<LinkPtr> link = connect_wire(address, options_.security, options_.limits, options_.pool,
                                        [&](const LinkPtr&) { return wire_callbacks(connection); });
    loop_->post([this, peer, connection, link = std::move(link)]() mutable {
      if (!link.ok()) {
        if (link.status().code() != Code::kInvalidArgument) return call_again(peer);
        calling_.erase(peer);
        if (options_.refused) options_.refused(peer, link.status());
        return;
      }
      connection->adapter = std::move(*link);
      connection->adapter->send(control_frame(self_for(*connection)));
    });
  });
}

void Endpoint::try_call(const std::string& peer) {
  if (!calling_.contains(peer)) return;
  if (carrier_->connected(peer)) {
    calling_.erase(peer);
    return;
  }
  if (const std::string wire = calling_[peer]; !wire.empty()) {
    return call_wire(peer, address_in_turn(wire, turns_[peer]));
  }
  auto connection = std::make_shared<Connection>();
  connection->peer = peer;
  connection->called = true;
  ConnectRequest request{options_.directory, peer, runtime::steady_now_ns() + kCallAgainNs, false};
  LinkOptions options;
  options.name = peer;
  Result<std::shared_ptr<UnixLink>> link =
      UnixLink::connect(loop_, request, options, callbacks_for(connection));
  if (!link.ok()) return call_again(peer);
  connection->link = std::move(*link);
  connection->adapter = std::make_shared<Adapter>(connection->link);
  connection->adapter->send(control_frame(self_for(*connection)));
}

void Endpoint::on_frame(const ConnectionPtr& connection, ReceivedFrame frame) {
  const std::string_view bytes(frame.payload.data, frame.payload.size);
  if (connection->greeted) {
    carrier_->receive(connection->peer, connection->adapter.get(), bytes,
                      std::move(frame.descriptors));
    return;
  }
  if (bytes.empty() || bytes.front() != kControlFrame) return connection->close();
  Result<protocol::Control> control = protocol::decode_control(bytes.substr(1));
  if (!control.ok()) return connection->close();
  if (const auto* hello = std::get_if<protocol::Hello>(&*control)) {
    greet(connection, *hello);
  } else if (const auto* refused = std::get_if<protocol::Refused>(&*control);
             refused != nullptr && connection->called) {
    if (!call_next(connection->peer, refused->status)) {
      calling_.erase(connection->peer);
      if (options_.refused) options_.refused(connection->peer, refused->status);
    }
    connection->refused = true;
    connection->close();
  } else {
    connection->close();
  }
}

void Endpoint::greet(const ConnectionPtr& connection, const protocol::Hello& hello) {
  if (connection->called) {
    if (hello.name != connection->peer) return connection->close();
    calling_.erase(connection->peer);
  } else {
    const Status admitted =
        options_.admit ? options_.admit(hello) : Status(Code::kCancelled, "nobody is expected");
    if (!admitted.ok()) return refuse(connection, admitted);
    connection->peer = hello.name;
    connection->adapter->send(control_frame(self_for(*connection)));
  }
  connection->greeted = true;
  talking_[connection->peer] = connection;
  carrier_->connect(hello, connection->adapter, connection->remote);
  if (options_.connected) options_.connected(hello);
}

void Endpoint::refuse(const ConnectionPtr& connection, const Status& why) {
  connection->adapter->send(control_frame(protocol::Refused{why}));
  if (!connection->remote) return connection->finish();
  timers_->add(runtime::steady_now_ns() + kLastWordNs, [connection] { connection->close(); });
}

void Endpoint::drop(const std::string& peer, const Status& why) {
  const auto found = talking_.find(peer);
  if (found == talking_.end()) return;
  const ConnectionPtr connection = found->second;
  refuse(connection, why);
}

void Endpoint::on_closed(const ConnectionPtr& connection, const Status&) {
  const std::string peer = connection->peer;
  if (!connection->greeted) {
    if (connection->called && !connection->refused) call_again(peer);
    return;
  }
  const auto found = talking_.find(peer);
  if (found != talking_.end() && found->second == connection) talking_.erase(found);
  const bool was_current = carrier_->disconnect(peer, connection->adapter.get());
  if (was_current && options_.lost) options_.lost(peer);
}

}  // namespace overlord::transport
