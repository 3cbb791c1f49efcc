// Test support of this room: an HTTP server on the loopback that answers by script: well, with an
// error, cut, reset, or drop by drop. It tells what it was asked, and when its client went away.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace overlord::store {

struct Asked {
  std::string method;
  std::string target;
  std::string head;  // all of it

  std::string header(const std::string& name) const {  // in lower case; empty: not there
    for (size_t at = 0; (at = head.find("\r\n", at)) != std::string::npos; at += 2) {
      const std::string line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
      if (line.size() <= name.size() || line[name.size()] != ':') continue;
      std::string found = line.substr(0, name.size());
      for (char& c : found) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (found == name) return line.substr(name.size() + 2);
    }
    return "";
  }
};

struct Answer {
  int status = 200;
  std::vector<std::string> headers;
  std::string body;
  size_t body_sent = ~size_t{0};  // then the connection is closed
  bool reset = false;             // no answer at all
  bool drip = false;              // two bytes a second, as long as somebody listens
};

class ScriptedServer {
 public:
  using Handler = std::function<Answer(const Asked&)>;

  explicit ScriptedServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 64);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }

  ~ScriptedServer() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
    ::close(listener_);
  }

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }

  std::vector<Asked> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  // False: it did not happen within a minute.
  bool wait_for_asked(size_t count) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return asked_.size() >= count; });
  }
  // When the client of the first drip went away.
  bool wait_for_gone(std::chrono::steady_clock::time_point* when) const {
    std::unique_lock lock(mutex_);
    const bool gone = changed_.wait_for(lock, std::chrono::minutes(1), [&] { return gone_; });
    *when = gone_at_;
    return gone;
  }

 private:
  void accept_all() {
    while (!stopping_) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      threads_.emplace_back([this, fd] {
        serve(fd);
        ::close(fd);
      });
    }
  }

  // Whether there is something to read, or an end, within `ms`.
  bool readable(int fd, int ms) const {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, ms) > 0;
  }

  bool read_request(int fd, Asked* asked) const {
    std::string head;
    while (!head.ends_with("\r\n\r\n")) {
      if (stopping_) return false;
      if (!readable(fd, 20)) continue;
      char c;
      if (::recv(fd, &c, 1, 0) != 1) return false;
      head += c;
    }
    asked->method = head.substr(0, head.find(' '));
    const size_t target = head.find(' ') + 1;
    asked->target = head.substr(target, head.find(' ', target) - target);
    asked->head = head;
    return true;
  }

  void serve(int fd) {
    Asked asked;
    while (read_request(fd, &asked)) {
      {
        const std::lock_guard lock(mutex_);
        asked_.push_back(asked);
      }
      changed_.notify_all();
      const Answer answer = handler_(asked);
      if (answer.reset) {
        const linger now{1, 0};
        ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        return;
      }
      std::string out = "HTTP/1.1 " + std::to_string(answer.status) +
                        " X\r\nContent-Length: " + std::to_string(answer.body.size()) + "\r\n";
      for (const std::string& header : answer.headers) out += header + "\r\n";
      out += "\r\n";
      if (answer.drip) return drip(fd, out, answer.body);
      if (asked.method != "HEAD") out += answer.body.substr(0, answer.body_sent);
      if (!send_all(fd, out) || answer.body_sent < answer.body.size()) return;
    }
  }

  static bool send_all(int fd, std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  void drip(int fd, const std::string& head, const std::string& body) {
    send_all(fd, head);
    size_t sent = 0;
    for (int beat = 0; !stopping_; ++beat) {
      if (readable(fd, 5)) break;  // nothing more is asked: the client went away
      if (beat % 100 == 0 && sent < body.size()) send_all(fd, body.substr(sent++, 1));
    }
    const std::lock_guard lock(mutex_);
    if (!gone_) gone_at_ = std::chrono::steady_clock::now();
    gone_ = true;
    changed_.notify_all();
  }

  const Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread acceptor_;
  std::list<std::thread> threads_;  // the acceptor's, until it ended
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Asked> asked_;
  bool gone_ = false;
  std::chrono::steady_clock::time_point gone_at_;
};

}  // namespace overlord::store
