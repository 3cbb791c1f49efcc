// The accepting side of the wire, as a Flight server.
#include <arrow/api.h>
#include <arrow/flight/api.h>
#include <arrow/flight/server_middleware.h>
#include <sys/random.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "overlord/base/check.h"
#include "overlord/base/guarded_by.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/wire/wire.h"
#include "overlord/transport/wire/wire_calls.h"
#include "overlord/transport/wire/wire_session.h"

namespace overlord::transport {
namespace {

namespace flight = arrow::flight;
using runtime::steady_now_ns;

constexpr int64_t kMessageBytes = 4 << 20;         // Flight gathers each in a buffer of its own
constexpr int64_t kLongestTakeNs = 1'000'000'000;  // then an empty answer: both hear each other

// Random from the system: a session cannot be guessed.
Digest new_session() {
  uint64_t words[2] = {0, 0};
  const ssize_t got = getrandom(words, sizeof(words), 0);  // 16 bytes are never cut short
  OVERLORD_CHECK(got == sizeof(words), "the system has random bytes");
  Digest out;
  out.high = words[0];
  out.low = words[1];
  return out;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned char differs = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < b.size(); ++i) {
    differs |= static_cast<unsigned char>((a.empty() ? '\0' : a[i % a.size()]) ^ b[i]);
  }
  return differs == 0;
}

arrow::Status refusal(const Status& status) {
  return flight::MakeFlightError(flight::FlightStatusCode::Internal, status.message());
}

// Every call of every kind passes here first.
class TokenCheck final : public flight::ServerMiddlewareFactory {
 public:
  TokenCheck(std::string token, std::shared_ptr<std::atomic<uint64_t>> refused)
      : header_("Bearer " + token), needed_(!token.empty()), refused_(std::move(refused)) {}

  arrow::Status StartCall(const flight::CallInfo&, const flight::ServerCallContext& context,
                          std::shared_ptr<flight::ServerMiddleware>*) override {
    if (!needed_) return arrow::Status::OK();
    const auto found = context.incoming_headers().find("authorization");
    if (found != context.incoming_headers().end() &&
        equal_in_constant_time(found->second, header_)) {
      return arrow::Status::OK();
    }
    ++*refused_;
    return flight::MakeFlightError(flight::FlightStatusCode::Unauthenticated,
                                   "this job's token is needed");
  }

 private:
  const std::string header_;
  const bool needed_;
  const std::shared_ptr<std::atomic<uint64_t>> refused_;
};

struct Session {
  explicit Session(const WireLimits& limits) : outbox(limits, true) {}

  WireOutbox outbox;
  std::mutex mutex;  // of what arrives: one batch after another
  WireInbox inbox OVERLORD_GUARDED_BY(mutex);
  WireCallbacks callbacks;
  std::atomic<int64_t> heard_ns{0};
  std::atomic<bool> closed{false};

  void end(const Status& why) {
    if (closed.exchange(true)) return;
    outbox.close();
    if (callbacks.closed) callbacks.closed(why);
  }
};

class SessionLink final : public Link {
 public:
  explicit SessionLink(std::weak_ptr<Session> session) : session_(std::move(session)) {}
  void send(std::string frame, std::vector<runtime::Descriptor>) override {
    const std::shared_ptr<Session> session = session_.lock();
    if (session && !session->closed) sent(*session, session->outbox.put(std::move(frame)));
  }
  void send_held(const runtime::Bytes& frame) override {
    const std::shared_ptr<Session> session = session_.lock();
    if (session && !session->closed) sent(*session, session->outbox.put_held(frame));
  }
  void close() override {
    if (const std::shared_ptr<Session> session = session_.lock()) {
      session->end(Status(Code::kCancelled, "closed here"));
    }
  }

 private:
  static void sent(Session& session, bool fitted) {
    if (!fitted) session.end(Status(Code::kResource, "the other side takes nothing"));
  }

  const std::weak_ptr<Session> session_;
};

class Service final : public flight::FlightServerBase {
 public:
  Service(const WireLimits& limits, WireServer::Accepted accepted,
          std::shared_ptr<std::atomic<uint64_t>> refused)
      : limits_(limits), accepted_(std::move(accepted)), refused_(std::move(refused)) {}

  arrow::Status DoAction(const flight::ServerCallContext& context, const flight::Action& action,
                         std::unique_ptr<flight::ResultStream>* result) override {
    Result<std::string> answer = answer_to(context, action);
    if (!answer.ok()) {
      ++*refused_;
      return refusal(answer.status());
    }
    std::vector<flight::Result> results(1);
    results[0].body = arrow::Buffer::FromString(std::move(*answer));
    *result = std::make_unique<flight::SimpleResultStream>(std::move(results));
    return arrow::Status::OK();
  }

  arrow::Status DoGet(const flight::ServerCallContext&, const flight::Ticket& request,
                      std::unique_ptr<flight::FlightDataStream>* stream) override {
    Result<runtime::Bytes> bytes = slice_of(request.ticket);
    if (!bytes.ok()) {
      ++*refused_;
      return refusal(bytes.status());
    }
    // The frame's own memory, wrapped; it is held until it has been sent.
    struct Held final : arrow::Buffer {
      explicit Held(runtime::Bytes held)
          : arrow::Buffer(reinterpret_cast<const uint8_t*>(held.data),
                          static_cast<int64_t>(held.size)),
            bytes(std::move(held)) {}
      runtime::Bytes bytes;
    };
    const auto rows = static_cast<int64_t>(bytes->size);
    const auto buffer = std::make_shared<Held>(std::move(*bytes));
    const auto schema = arrow::schema({arrow::field("bytes", arrow::uint8(), false)});
    arrow::RecordBatchVector batches;
    for (int64_t first = 0; first < rows; first += kMessageBytes) {
      const int64_t count = std::min(kMessageBytes, rows - first);
      auto part = arrow::SliceBuffer(buffer, first, count);
      batches.push_back(arrow::RecordBatch::Make(
          schema, count,
          {arrow::ArrayData::Make(arrow::uint8(), count, {nullptr, std::move(part)}, 0)}));
    }
    ARROW_ASSIGN_OR_RAISE(auto reader, arrow::RecordBatchReader::Make(std::move(batches), schema));
    *stream = std::make_unique<flight::RecordBatchStream>(std::move(reader));
    return arrow::Status::OK();
  }

  // Ends sessions that have not been heard of.
  void reap(int64_t now_ns) {
    for (const auto& [id, session] : snapshot()) {
      if (session->closed) {
        const std::lock_guard lock(mutex_);
        sessions_.erase(id);
      } else if (now_ns - session->heard_ns > limits_.silence_ns) {
        session->end(Status(Code::kUnavailable, "nothing was heard for too long"));
      }
    }
  }
  void end_all() {
    for (const auto& [id, session] : snapshot()) {
      session->end(Status(Code::kCancelled, "closed here"));
    }
  }

 private:
  std::map<std::string, std::shared_ptr<Session>> snapshot() {
    const std::lock_guard lock(mutex_);
    return sessions_;
  }

  Result<std::shared_ptr<Session>> session_of(const Digest& id) {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(id.hex());
    if (found == sessions_.end() || found->second->closed) {
      return Status(Code::kUnavailable, "no such session (any more)");
    }
    found->second->heard_ns = steady_now_ns();
    return found->second;
  }

  Result<std::string> answer_to(const flight::ServerCallContext& context,
                                const flight::Action& action) {
    if (action.type == kOpenCall) return open(context.peer());
    if (!action.body) return bad_data("a call without a body");
    const std::string_view body(reinterpret_cast<const char*>(action.body->data()),
                                static_cast<size_t>(action.body->size()));
    OVERLORD_TRY(const WireCall call, decode_call(body));
    OVERLORD_TRY(const std::shared_ptr<Session> session, session_of(call.session));
    if (action.type == kSendCall) {
      OVERLORD_RETURN_IF_ERROR(heard(*session, call.rest));
      return std::string();
    }
    if (action.type == kTakeCall) {
      const auto wait = static_cast<int64_t>(std::min<uint64_t>(call.second, kLongestTakeNs));
      return encode_batch(session->outbox.take(call.first, wait));
    }
    if (action.type == kReleaseCall) {
      session->outbox.release(call.first);
      return std::string();
    }
    if (action.type == kCloseCall) {
      session->end(Status(Code::kUnavailable, "the other side hung up"));
      return std::string();
    }
    return bad_data("no such call");
  }

  Result<std::string> open(const std::string& peer) {
    auto session = std::make_shared<Session>(limits_);
    session->heard_ns = steady_now_ns();
    const Digest id = new_session();
    {
      const std::lock_guard lock(mutex_);
      if (sessions_.size() >= limits_.max_sessions) {
        return Status(Code::kResource, "too many sessions");
      }
      sessions_[id.hex()] = session;
    }
    session->callbacks = accepted_(std::make_shared<SessionLink>(session), peer);
    return encode_call({id, 0, 0, {}});
  }

  Status heard(Session& session, std::string_view bytes) {
    OVERLORD_TRY(WireBatch batch, decode_batch(bytes, limits_));
    const std::lock_guard lock(session.mutex);
    OVERLORD_TRY(std::vector<WireFrame> frames, session.inbox.accept(std::move(batch)));
    for (WireFrame& frame : frames) {
      if (frame.bulk != 0) return bad_data("an acceptor pulls nothing");
      if (session.callbacks.received) {
        session.callbacks.received(runtime::Bytes::copy_of(frame.bytes));
      }
    }
    return {};
  }

  Result<runtime::Bytes> slice_of(const std::string& request) {
    OVERLORD_TRY(const BulkTicket ticket, decode_ticket(request));
    OVERLORD_TRY(const std::shared_ptr<Session> session, session_of(ticket.session));
    const std::optional<runtime::Bytes> whole = session->outbox.bulk(ticket.number);
    if (!whole) return bad_data("no such frame (any more)");
    if (ticket.size_bytes > whole->size || ticket.offset > whole->size - ticket.size_bytes) {
      return bad_data("a slice outside its frame");
    }
    return runtime::Bytes{whole->holder, whole->data + ticket.offset,
                          static_cast<size_t>(ticket.size_bytes)};
  }

  const WireLimits limits_;
  const WireServer::Accepted accepted_;
  const std::shared_ptr<std::atomic<uint64_t>> refused_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Session>> sessions_ OVERLORD_GUARDED_BY(mutex_);
};

class FlightWireServer final : public WireServer {
 public:
  FlightWireServer(const WireLimits& limits, Accepted accepted)
      : refused_(std::make_shared<std::atomic<uint64_t>>(0)),
        service_(limits, std::move(accepted), refused_) {}
  ~FlightWireServer() override { close(); }

  Status start(const HostPort& address, const WireSecurity& security) {
    const bool tls = !security.certificate.empty();
    arrow::Result<flight::Location> location =
        tls ? flight::Location::ForGrpcTls(address.host, address.port)
            : flight::Location::ForGrpcTcp(address.host, address.port);
    if (!location.ok()) return invalid_argument(location.status().message());
    flight::FlightServerOptions options(*location);
    if (tls) options.tls_certificates.push_back({security.certificate, security.private_key});
    options.middleware.emplace_back("token",
                                    std::make_shared<TokenCheck>(security.token, refused_));
    if (const arrow::Status status = service_.Init(options); !status.ok()) {
      return {Code::kResource, "cannot listen on " + address.host + ":" +
                                   std::to_string(address.port) + ": " + status.message()};
    }
    host_ = address.host;
    reaper_ = std::thread([this] { reap(); });
    return {};
  }

  std::string address() const override {
    const bool v6 = host_.find(':') != std::string::npos;
    return (v6 ? "[" + host_ + "]" : host_) + ":" + std::to_string(service_.port());
  }
  uint64_t refused() const override { return *refused_; }

  void close() override {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      closed_ = true;
      stop_.notify_all();
    }
    if (reaper_.joinable()) reaper_.join();
    service_.end_all();
    const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(1);
    [[maybe_unused]] const arrow::Status stopped = service_.Shutdown(&deadline);
    [[maybe_unused]] const arrow::Status ended = service_.Wait();
  }

 private:
  void reap() {
    std::unique_lock lock(mutex_);
    is_held(mutex_);
    while (!closed_) {
      stop_.wait_for(lock, std::chrono::milliseconds(200));
      lock.unlock();
      service_.reap(steady_now_ns());
      lock.lock();
    }
  }

  const std::shared_ptr<std::atomic<uint64_t>> refused_;
  Service service_;
  std::string host_;
  std::thread reaper_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool closed_ OVERLORD_GUARDED_BY(mutex_) = false;
};

}  // namespace

Result<std::unique_ptr<WireServer>> WireServer::listen(const std::string& address,
                                                       const WireSecurity& security,
                                                       const WireLimits& limits,
                                                       Accepted accepted) {
  OVERLORD_TRY(const HostPort parts, parse_address(address));
  OVERLORD_TRY(const bool loopback, is_loopback(address));
  if (!loopback && (security.certificate.empty() || security.token.empty())) {
    return invalid_argument("listening on " + address +
                            " can be reached from other hosts and needs TLS and a token: set "
                            "wire.certificate, wire.key and wire.token");
  }
  if (security.certificate.empty() != security.private_key.empty()) {
    return invalid_argument("wire: a certificate needs its key, and the other way round");
  }
  auto server = std::make_unique<FlightWireServer>(limits, std::move(accepted));
  OVERLORD_RETURN_IF_ERROR(server->start(parts, security));
  return std::unique_ptr<WireServer>(std::move(server));
}

}  // namespace overlord::transport
