// The connecting side of the wire, as Flight clients: one to send, one to take, some to pull.
#include <arrow/api.h>
#include <arrow/flight/api.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "overlord/base/guarded_by.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/wire/wire.h"
#include "overlord/transport/wire/wire_calls.h"
#include "overlord/transport/wire/wire_session.h"

namespace overlord::transport {
namespace {

namespace flight = arrow::flight;
using runtime::steady_now_ns;
using ClientPtr = std::unique_ptr<flight::FlightClient>;

constexpr int64_t kTakeNs = 500'000'000;  // how long an acceptor may wait for something to say
// Slices of one connection that are under way together: one is read while the other is copied, and
// nobody waits for an answer's way there and back.
constexpr int kPullsPerConnection = 2;
constexpr auto kPause = std::chrono::milliseconds(20);  // before a failed call is repeated

Status failed(const std::string& what, const arrow::Status& status) {
  return {Code::kUnavailable, what + ": " + status.message()};
}

// A large frame on its way here.
struct Pull {
  uint64_t number = 0;
  runtime::Buffer buffer;
  uint64_t next = 0;     // first byte that no slice was begun for
  uint64_t missing = 0;  // bytes that have not come
};

class Connector {
 public:
  Connector(const WireSecurity& security, const WireLimits& limits,
            std::shared_ptr<runtime::BufferPool> pool)
      : security_(security), limits_(limits), pool_(std::move(pool)), outbox_(limits, false) {}

  Status open(const std::string& address);
  static void start(const std::shared_ptr<Connector>& self, WireCallbacks callbacks,
                    std::vector<std::thread>* threads);
  void put(std::string frame) {
    if (!outbox_.put(std::move(frame)))
      end(Status(Code::kResource, "the other side takes nothing"));
  }
  void end(const Status& why);

 private:
  Result<ClientPtr> connect(const flight::Location& location) const;
  flight::FlightCallOptions call_options() const;
  Result<std::string> call(flight::FlightClient& client, std::string_view type,
                           const WireCall& call) const;
  void send_loop();
  void take_loop();
  void pull_loop(flight::FlightClient& client);
  Status take_batch(const std::string& bytes);
  Status begin_pull(const WireFrame& frame);
  std::optional<std::pair<std::shared_ptr<Pull>, uint64_t>> next_slice();
  Status pull_slice(flight::FlightClient& client, const Pull& pull, uint64_t offset,
                    uint64_t size_bytes) const;
  void slice_came(flight::FlightClient& client, const std::shared_ptr<Pull>& pull, uint64_t bytes);
  bool silent_too_long() const { return steady_now_ns() - heard_ns_ > limits_.silence_ns; }
  void pause();

  const WireSecurity security_;
  const WireLimits limits_;
  const std::shared_ptr<runtime::BufferPool> pool_;
  Digest session_;
  ClientPtr sender_;
  ClientPtr taker_;
  std::vector<ClientPtr> pullers_;
  WireOutbox outbox_;
  WireInbox inbox_;  // of the taking thread
  WireCallbacks callbacks_;
  std::atomic<int64_t> heard_ns_{0};
  std::atomic<bool> closed_{false};

  std::mutex mutex_;  // of the pulls
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Pull>> waiting_ OVERLORD_GUARDED_BY(mutex_);  // for credit
  std::deque<std::shared_ptr<Pull>> running_ OVERLORD_GUARDED_BY(mutex_);
  uint64_t pulling_bytes_ OVERLORD_GUARDED_BY(mutex_) = 0;
};

Result<ClientPtr> Connector::connect(const flight::Location& location) const {
  flight::FlightClientOptions options = flight::FlightClientOptions::Defaults();
  options.tls_root_certs = security_.authority;
  options.generic_options.emplace_back("grpc.use_local_subchannel_pool", 1);  // own connections
  options.generic_options.emplace_back("grpc.max_receive_message_length",
                                       static_cast<int>(64 << 20));
  arrow::Result<ClientPtr> client = flight::FlightClient::Connect(location, options);
  if (!client.ok()) return failed("cannot connect", client.status());
  return std::move(*client);
}

Status Connector::open(const std::string& address) {
  OVERLORD_TRY(const HostPort parts, parse_address(address));
  OVERLORD_TRY(const bool loopback, is_loopback(address));
  const bool tls = !security_.authority.empty();
  if (!loopback && (!tls || security_.token.empty())) {
    return invalid_argument("calling " + address +
                            " on another host needs TLS and a token: set wire.authority and "
                            "wire.token");
  }
  arrow::Result<flight::Location> location =
      tls ? flight::Location::ForGrpcTls(parts.host, parts.port)
          : flight::Location::ForGrpcTcp(parts.host, parts.port);
  if (!location.ok()) return invalid_argument(location.status().message());
  OVERLORD_TRY(sender_, connect(*location));
  OVERLORD_TRY(taker_, connect(*location));
  for (uint32_t i = 0; i < std::max(1u, limits_.connections); ++i) {
    OVERLORD_TRY(ClientPtr puller, connect(*location));
    pullers_.push_back(std::move(puller));
  }
  Result<std::string> answer = call(*sender_, kOpenCall, {});
  if (!answer.ok()) return answer.status().with_context(address);
  OVERLORD_TRY(const WireCall opened, decode_call(*answer));
  session_ = opened.session;
  heard_ns_ = steady_now_ns();
  return {};
}

flight::FlightCallOptions Connector::call_options() const {
  flight::FlightCallOptions options;
  options.timeout = flight::TimeoutDuration(static_cast<double>(limits_.call_ns) / 1e9);
  if (!security_.token.empty()) {
    options.headers.emplace_back("authorization", "Bearer " + security_.token);
  }
  return options;
}

Result<std::string> Connector::call(flight::FlightClient& client, std::string_view type,
                                    const WireCall& call) const {
  const flight::Action action(std::string(type), arrow::Buffer::FromString(encode_call(call)));
  arrow::Result<std::unique_ptr<flight::ResultStream>> results =
      client.DoAction(call_options(), action);
  if (!results.ok()) return failed("the other side", results.status());
  arrow::Result<std::unique_ptr<flight::Result>> result = (*results)->Next();
  if (!result.ok()) return failed("the other side", result.status());
  if (!*result || !(*result)->body) return std::string();
  return (*result)->body->ToString();
}

void Connector::start(const std::shared_ptr<Connector>& self, WireCallbacks callbacks,
                      std::vector<std::thread>* threads) {
  self->callbacks_ = std::move(callbacks);
  threads->emplace_back([self] { self->send_loop(); });
  threads->emplace_back([self] { self->take_loop(); });
  for (ClientPtr& client : self->pullers_) {
    for (int i = 0; i < kPullsPerConnection; ++i) {
      threads->emplace_back([self, &client] { self->pull_loop(*client); });
    }
  }
}

void Connector::end(const Status& why) {
  if (closed_.exchange(true)) return;
  outbox_.close();
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    running_.clear();
    changed_.notify_all();
  }
  if (callbacks_.closed) callbacks_.closed(why);
}

void Connector::pause() {
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  changed_.wait_for(lock, kPause, [this] { return closed_.load(); });
}

void Connector::send_loop() {
  uint64_t acknowledged = 0;
  while (!closed_) {
    const WireBatch batch = outbox_.take(acknowledged, kTakeNs);
    if (batch.frames.empty()) continue;
    const std::string bytes = encode_batch(batch);
    if (call(*sender_, kSendCall, {session_, 0, 0, bytes}).ok()) {
      acknowledged = batch.first + batch.frames.size() - 1;
      heard_ns_ = steady_now_ns();
      continue;
    }
    if (silent_too_long()) return end(Status(Code::kUnavailable, "the other side is silent"));
    pause();
  }
  static_cast<void>(call(*sender_, kCloseCall, {session_, 0, 0, {}}).ok());
}

void Connector::take_loop() {
  while (!closed_) {
    Result<std::string> bytes =
        call(*taker_, kTakeCall, {session_, inbox_.last(), static_cast<uint64_t>(kTakeNs), {}});
    if (!bytes.ok()) {
      if (silent_too_long()) return end(bytes.status());
      pause();
      continue;
    }
    heard_ns_ = steady_now_ns();
    if (Status status = take_batch(*bytes); !status.ok()) return end(status);
  }
}

Status Connector::take_batch(const std::string& bytes) {
  OVERLORD_TRY(WireBatch batch, decode_batch(bytes, limits_));
  OVERLORD_TRY(std::vector<WireFrame> frames, inbox_.accept(std::move(batch)));
  for (WireFrame& frame : frames) {
    if (closed_) return {};
    if (frame.bulk != 0) {
      OVERLORD_RETURN_IF_ERROR(begin_pull(frame));
    } else if (callbacks_.received) {
      callbacks_.received(runtime::Bytes::copy_of(frame.bytes));
    }
  }
  return {};
}

Status Connector::begin_pull(const WireFrame& frame) {
  auto pull = std::make_shared<Pull>();
  pull->number = frame.bulk;
  pull->missing = frame.size_bytes;
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(pull));
  changed_.notify_all();
  return {};
}

// The next slice to pull, in the order of frames; memory is taken when there is credit for it.
std::optional<std::pair<std::shared_ptr<Pull>, uint64_t>> Connector::next_slice() {
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  for (;;) {
    if (closed_) return std::nullopt;
    if (!running_.empty()) {
      std::shared_ptr<Pull> pull = running_.front();
      const uint64_t offset = pull->next;
      pull->next += std::min(limits_.slice_bytes, pull->buffer.size - offset);
      if (pull->next == pull->buffer.size) running_.pop_front();
      return std::pair(std::move(pull), offset);
    }
    if (!waiting_.empty() && (pulling_bytes_ == 0 ||
                              pulling_bytes_ + waiting_.front()->missing <= limits_.credit_bytes)) {
      std::shared_ptr<Pull> pull = std::move(waiting_.front());
      waiting_.pop_front();
      pulling_bytes_ += pull->missing;
      pull->buffer = pool_->acquire(pull->missing);
      if (!pull->buffer.data) return std::nullopt;
      running_.push_back(std::move(pull));
      changed_.notify_all();
      continue;
    }
    changed_.wait(lock);
  }
}

void Connector::pull_loop(flight::FlightClient& client) {
  for (;;) {
    const auto slice = next_slice();
    if (!slice) {
      return end(Status(Code::kResource, "no memory for a frame that came over the wire"));
    }
    const auto& [pull, offset] = *slice;
    const uint64_t size = std::min(limits_.slice_bytes, pull->buffer.size - offset);
    while (!closed_) {
      const Status status = pull_slice(client, *pull, offset, size);
      if (status.ok()) break;
      if (status.code() == Code::kBadData || silent_too_long()) return end(status);
      pause();
    }
    if (closed_) return;
    slice_came(client, pull, size);
  }
}

Status Connector::pull_slice(flight::FlightClient& client, const Pull& pull, uint64_t offset,
                             uint64_t size_bytes) const {
  flight::Ticket ticket{encode_ticket({session_, pull.number, offset, size_bytes})};
  auto reader = client.DoGet(call_options(), ticket);
  if (!reader.ok()) return failed("pulling", reader.status());
  uint64_t got = 0;
  for (;;) {
    arrow::Result<flight::FlightStreamChunk> chunk = (*reader)->Next();
    if (!chunk.ok()) return failed("pulling", chunk.status());
    if (!chunk->data) break;
    const std::shared_ptr<arrow::RecordBatch>& batch = chunk->data;
    if (batch->num_columns() != 1 || batch->column(0)->type_id() != arrow::Type::UINT8 ||
        static_cast<uint64_t>(batch->num_rows()) > size_bytes - got ||
        !batch->ValidateFull().ok()) {
      return bad_data("a slice that was not asked for");
    }
    const auto* bytes = static_cast<const arrow::UInt8Array&>(*batch->column(0)).raw_values();
    std::memcpy(pull.buffer.data.get() + offset + got, bytes,
                static_cast<size_t>(batch->num_rows()));
    got += static_cast<uint64_t>(batch->num_rows());
  }
  return got == size_bytes ? Status() : bad_data("a slice that is too short");
}

void Connector::slice_came(flight::FlightClient& client, const std::shared_ptr<Pull>& pull,
                           uint64_t bytes) {
  heard_ns_ = steady_now_ns();
  {
    const std::lock_guard lock(mutex_);
    pull->missing -= bytes;
    if (pull->missing > 0) return;
    pulling_bytes_ -= pull->buffer.size;
    changed_.notify_all();
  }
  static_cast<void>(call(client, kReleaseCall, {session_, pull->number, 0, {}}).ok());
  if (!closed_ && callbacks_.received) callbacks_.received(pull->buffer.view());
}

class ConnectorLink final : public Link {
 public:
  explicit ConnectorLink(std::shared_ptr<Connector> connector) : connector_(std::move(connector)) {}
  // The last holder may be one of the threads, in a callback: that one ends by itself.
  ~ConnectorLink() override {
    connector_->end(Status(Code::kCancelled, "closed here"));
    for (std::thread& thread : threads_) {
      if (thread.get_id() == std::this_thread::get_id()) {
        thread.detach();
      } else {
        thread.join();
      }
    }
  }
  void start(WireCallbacks callbacks) {
    Connector::start(connector_, std::move(callbacks), &threads_);
  }

  void send(std::string frame, std::vector<runtime::Descriptor>) override {
    connector_->put(std::move(frame));
  }
  void close() override { connector_->end(Status(Code::kCancelled, "closed here")); }

 private:
  const std::shared_ptr<Connector> connector_;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<LinkPtr> connect_wire(const std::string& address, const WireSecurity& security,
                             const WireLimits& limits, std::shared_ptr<runtime::BufferPool> pool,
                             std::function<WireCallbacks(const LinkPtr&)> make_callbacks) {
  auto connector = std::make_shared<Connector>(security, limits, std::move(pool));
  OVERLORD_RETURN_IF_ERROR(connector->open(address));
  auto link = std::make_shared<ConnectorLink>(std::move(connector));
  link->start(make_callbacks(link));
  return LinkPtr(std::move(link));
}

}  // namespace overlord::transport
