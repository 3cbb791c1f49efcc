#include "raw_tcp.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "overlord/runtime/descriptor.h"

namespace overlord::bench {
namespace {

using runtime::Descriptor;

struct SliceHead {
  uint64_t batch = 0, batch_bytes = 0, offset = 0, size_bytes = 0;
};

Status failed(const std::string& what) {
  return {Code::kUnavailable, what + ": " + std::strerror(errno)};
}

Result<sockaddr_in> parse(const std::string& address) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos ||
      inet_pton(AF_INET, address.substr(0, colon).c_str(), &out.sin_addr) != 1) {
    return invalid_argument("an IPv4 address A.B.C.D:PORT is needed, got '" + address + "'");
  }
  out.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  return out;
}

bool send_all(int socket, const char* data, size_t size, int flags = 0) {
  while (size > 0) {
    const ssize_t sent = ::send(socket, data, size, MSG_NOSIGNAL | flags);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, char* data, size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(socket, data, size, MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

void send_at_once(const Descriptor& socket) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

class Sender final : public RawTcpSender {
 public:
  explicit Sender(const RawTcpShape& shape) : shape_(shape) {}
  ~Sender() override { stop(); }

  Status listen(const std::string& address) {
    OVERLORD_TRY(sockaddr_in where, parse(address));
    door_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    socklen_t size = sizeof where;
    auto* name = reinterpret_cast<sockaddr*>(&where);
    if (bind(door_.get(), name, size) != 0 || ::listen(door_.get(), 64) != 0 ||
        getsockname(door_.get(), name, &size) != 0) {
      return failed("listening on " + address);
    }
    address_ = address.substr(0, address.rfind(':')) + ":" + std::to_string(ntohs(where.sin_port));
    return {};
  }

  std::string address() const override { return address_; }

  void send(runtime::Bytes batch) override {
    const std::lock_guard lock(mutex_);
    ++batches_;
    for (uint64_t offset = 0; offset < batch.size; offset += shape_.slice_bytes) {
      const uint64_t size = std::min<uint64_t>(shape_.slice_bytes, batch.size - offset);
      queue_.push_back({{batches_, batch.size, offset, size}, batch});
    }
    changed_.notify_all();
  }

  // The first connection says what is wanted, the others carry it.
  Status serve(const std::function<void(char)>& said) override {
    for (uint32_t i = 0; i <= shape_.streams; ++i) {
      Descriptor one(accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!one.valid()) return failed("accepting");
      send_at_once(one);
      sockets_.push_back(std::move(one));
    }
    for (uint32_t i = 1; i <= shape_.streams; ++i) {
      threads_.emplace_back([this, i] { send_slices(sockets_[i].get()); });
    }
    char what = 0;
    while (receive_all(sockets_[0].get(), &what, 1)) said(what);
    stop();
    return {};
  }

 private:
  struct Slice {
    SliceHead head;
    runtime::Bytes batch;
  };

  void send_slices(int socket) {
    for (;;) {
      Slice slice;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
        if (stopped_) return;
        slice = std::move(queue_.front());
        queue_.pop_front();
      }
      const auto* head = reinterpret_cast<const char*>(&slice.head);
      if (!send_all(socket, head, sizeof slice.head, MSG_MORE) ||
          !send_all(socket, slice.batch.data + slice.head.offset, slice.head.size_bytes)) {
        return;
      }
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      changed_.notify_all();
    }
    for (const Descriptor& one : sockets_) shutdown(one.get(), SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  const RawTcpShape shape_;
  Descriptor door_;
  std::string address_;
  std::vector<Descriptor> sockets_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Slice> queue_;
  uint64_t batches_ = 0;
  bool stopped_ = false;
};

class Taker final : public RawTcpTaker {
 public:
  Taker(std::shared_ptr<runtime::BufferPool> pool, std::function<void(runtime::Bytes)> received)
      : pool_(std::move(pool)), received_(std::move(received)) {}
  ~Taker() override {
    for (const Descriptor& one : sockets_) shutdown(one.get(), SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
  }

  Status call(const std::string& address, uint32_t streams) {
    OVERLORD_TRY(const sockaddr_in where, parse(address));
    for (uint32_t i = 0; i <= streams; ++i) {
      Descriptor one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(one.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) {
        return failed("calling " + address);
      }
      send_at_once(one);
      sockets_.push_back(std::move(one));
    }
    for (uint32_t i = 1; i <= streams; ++i) {
      threads_.emplace_back([this, i] { receive_slices(sockets_[i].get()); });
    }
    return {};
  }

  void say(char what) override { send_all(sockets_[0].get(), &what, 1); }

 private:
  struct Batch {
    runtime::Buffer buffer;
    uint64_t missing = 0;
  };

  void receive_slices(int socket) {
    SliceHead head;
    while (receive_all(socket, reinterpret_cast<char*>(&head), sizeof head)) {
      char* memory = nullptr;
      {
        const std::lock_guard lock(mutex_);
        Batch& batch = batches_[head.batch];
        if (!batch.buffer.data) {
          batch.buffer = pool_->acquire(head.batch_bytes);
          batch.missing = head.batch_bytes;
        }
        memory = batch.buffer.data.get();
      }
      if (memory == nullptr || !receive_all(socket, memory + head.offset, head.size_bytes)) return;
      runtime::Bytes whole;
      {
        const std::lock_guard lock(mutex_);
        const auto found = batches_.find(head.batch);
        found->second.missing -= head.size_bytes;
        if (found->second.missing > 0) continue;
        whole = found->second.buffer.view();
        batches_.erase(found);
      }
      received_(std::move(whole));
    }
  }

  const std::shared_ptr<runtime::BufferPool> pool_;
  const std::function<void(runtime::Bytes)> received_;
  std::vector<Descriptor> sockets_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::map<uint64_t, Batch> batches_;
};

}  // namespace

Result<std::unique_ptr<RawTcpSender>> RawTcpSender::listen(const std::string& address,
                                                           const RawTcpShape& shape) {
  auto out = std::make_unique<Sender>(shape);
  OVERLORD_RETURN_IF_ERROR(out->listen(address));
  return std::unique_ptr<RawTcpSender>(std::move(out));
}

Result<std::unique_ptr<RawTcpTaker>> RawTcpTaker::call(
    const std::string& address, const RawTcpShape& shape, std::shared_ptr<runtime::BufferPool> pool,
    std::function<void(runtime::Bytes)> received) {
  auto out = std::make_unique<Taker>(std::move(pool), std::move(received));
  OVERLORD_RETURN_IF_ERROR(out->call(address, shape.streams));
  return std::unique_ptr<RawTcpTaker>(std::move(out));
}

}  // namespace overlord::bench
