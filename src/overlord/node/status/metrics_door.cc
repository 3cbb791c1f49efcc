#include "overlord/node/status/metrics_door.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include "overlord/node/status/metrics_text.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/socket_directory.h"
#include "overlord/transport/wire/wire.h"
#include "overlord/transport/wire/wire_calls.h"

namespace overlord::node {
namespace {

using runtime::Descriptor;

constexpr char kSocketName[] = "metrics";
constexpr size_t kRequestBytes = 8192;
constexpr int64_t kCallerNs = 2'000'000'000;  // for all that one caller says and hears
constexpr size_t kCallers = 16;               // at once; one more, and the oldest silent one goes
constexpr int kBacklog = 64;

Status failed(const std::string& what) {
  return {Code::kResource,
          "runtime.metrics: cannot " + what + ": " + std::generic_category().message(errno)};
}

std::string response(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nContent-Type: " + std::string(kMetricsContentType) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" +
         body;
}

// What is asked for, without its query; empty: not something that can be answered.
std::string path_of(const std::string& head) {
  if (!head.starts_with("GET ")) return {};
  const size_t end = head.find_first_of(" ?\r", 4);
  return end == std::string::npos ? std::string() : head.substr(4, end - 4);
}

}  // namespace

bool MetricsOptions::take(const std::string& key, const std::string& value) {
  if (key == "metrics.socket") {
    socket = value == "1";
  } else if (key == "metrics.address") {
    address = value;
  } else {
    return false;
  }
  return true;
}

Result<std::unique_ptr<MetricsDoor>> MetricsDoor::open(const MetricsOptions& options,
                                                       const std::string& directory,
                                                       Figures figures) {
  std::unique_ptr<MetricsDoor> door(new MetricsDoor(std::move(figures)));
  if (!options.address.empty()) {
    OVERLORD_TRY(const bool loopback, transport::is_loopback(options.address));
    if (!loopback) {
      return invalid_argument(
          "runtime.metrics: figures are served on this host alone, at 127.0.0.1 "
          "or [::1], not at " +
          options.address + "; let an agent of the host pass them on");
    }
    OVERLORD_RETURN_IF_ERROR(door->listen_on_port(options.address));
  }
  if (options.socket) OVERLORD_RETURN_IF_ERROR(door->listen_on_socket(directory));
  door->stop_ = Descriptor(eventfd(0, EFD_CLOEXEC));
  if (!door->stop_.valid()) return failed("make an event");
  door->thread_ = std::thread([raw = door.get()] { raw->serve(); });
  return door;
}

MetricsDoor::~MetricsDoor() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

Status MetricsDoor::listen_on_socket(const std::string& directory) {
  OVERLORD_TRY(const transport::SocketDirectory folder,
               transport::SocketDirectory::find(directory));
  const std::string path = folder.address_of(kSocketName);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof name.sun_path) {
    return invalid_argument("runtime.metrics: the path " + path + " is too long for a socket");
  }
  std::copy(path.begin(), path.end(), name.sun_path);
  unlink(path.c_str());  // of a node that died here; we have the directory's lock
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid() ||
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return failed("listen at " + directory + "/" + kSocketName);
  }
  doors_.push_back(std::move(socket));
  return {};
}

Status MetricsDoor::listen_on_port(const std::string& address) {
  OVERLORD_TRY(const transport::HostPort where, transport::parse_address(address));
  const bool v6 = where.host == "::1";
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(where.port));
  sockaddr_in6 name6{};
  name6.sin6_family = AF_INET6;
  name6.sin6_port = name.sin_port;
  name6.sin6_addr = in6addr_loopback;
  const std::string host = where.host == "localhost" ? "127.0.0.1" : where.host;
  if (!v6 && inet_pton(AF_INET, host.c_str(), &name.sin_addr) != 1) {
    return invalid_argument("runtime.metrics: not an address: " + address);
  }
  auto* any = v6 ? reinterpret_cast<sockaddr*>(&name6) : reinterpret_cast<sockaddr*>(&name);
  socklen_t size = v6 ? sizeof name6 : sizeof name;
  Descriptor socket(::socket(any->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (socket.valid()) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!socket.valid() || bind(socket.get(), any, size) != 0 ||
      ::listen(socket.get(), kBacklog) != 0 || getsockname(socket.get(), any, &size) != 0) {
    return failed("listen on " + address);
  }
  port_ = ntohs(v6 ? name6.sin6_port : name.sin_port);
  doors_.push_back(std::move(socket));
  return {};
}

// Whoever has said what he wants is answered before a new caller can push him out.
void MetricsDoor::serve() {
  std::vector<Caller> callers;
  for (;;) {
    std::vector<pollfd> watched{{stop_.get(), POLLIN, 0}};
    for (const Descriptor& door : doors_) watched.push_back({door.get(), POLLIN, 0});
    int64_t first_ns = std::numeric_limits<int64_t>::max();
    for (const Caller& caller : callers) {
      const short what = caller.answer.empty() ? POLLIN : POLLOUT;
      watched.push_back({caller.socket.get(), what, 0});
      first_ns = std::min(first_ns, caller.deadline_ns);
    }
    const int64_t left_ms = (first_ns - runtime::steady_now_ns()) / 1'000'000 + 1;
    const int wait_ms = callers.empty() ? -1 : static_cast<int>(std::max<int64_t>(left_ms, 0));
    if (poll(watched.data(), watched.size(), wait_ms) < 0) {
      if (errno != EINTR) return;
      continue;
    }
    if (watched[0].revents != 0) return;
    const int64_t now_ns = runtime::steady_now_ns();
    for (size_t i = 0; i < callers.size(); ++i) {
      const bool ready = watched[1 + doors_.size() + i].revents != 0;
      const bool stays = ready ? go_on(&callers[i]) : callers[i].deadline_ns > now_ns;
      if (!stays) callers[i].socket.reset();
    }
    std::erase_if(callers, [](const Caller& caller) { return !caller.socket.valid(); });
    for (size_t i = 0; i < doors_.size(); ++i) {
      if (watched[1 + i].revents != 0) let_in(doors_[i].get(), &callers);
    }
  }
}

void MetricsDoor::let_in(int door, std::vector<Caller>* callers) {
  Descriptor socket(accept4(door, nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) return;
  if (callers->size() == kCallers) {
    const auto silent = std::find_if(callers->begin(), callers->end(),
                                     [](const Caller& caller) { return caller.answer.empty(); });
    callers->erase(silent == callers->end() ? callers->begin() : silent);
  }
  callers->push_back({std::move(socket), runtime::steady_now_ns() + kCallerNs, {}, {}, 0});
}

// Hears or says as much as goes without waiting; false: there is nothing more to say.
bool MetricsDoor::go_on(Caller* caller) const {
  if (caller->answer.empty()) {
    char bytes[1024];
    const ssize_t got = recv(caller->socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) return got < 0 && errno == EAGAIN;
    caller->request.append(bytes, static_cast<size_t>(got));
    const bool whole = caller->request.find("\r\n\r\n") != std::string::npos;
    if (!whole && caller->request.size() < kRequestBytes) return true;
    caller->answer = answer_to(caller->request);
  }
  const ssize_t sent = send(caller->socket.get(), caller->answer.data() + caller->sent,
                            caller->answer.size() - caller->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN;
  caller->sent += static_cast<size_t>(sent);
  return caller->sent < caller->answer.size();
}

std::string MetricsDoor::answer_to(const std::string& request) const {
  const std::string path = path_of(request);
  if (path.empty()) return response("400 Bad Request", "");
  if (path != "/" && path != "/metrics") return response("404 Not Found", "");
  const std::optional<std::string> text = figures_();
  return text ? response("200 OK", *text) : response("503 Service Unavailable", "");
}

}  // namespace overlord::node
