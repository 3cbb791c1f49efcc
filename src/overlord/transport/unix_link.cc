#include "overlord/transport/unix_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/runtime/quote.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/socket_directory.h"

namespace overlord::transport {
namespace {

using runtime::quote;
using runtime::steady_now_ns;

constexpr size_t kInlineBytes = 64 << 10;  // larger frames are the loop's to write
constexpr size_t kWritePieces = 64;        // of one call
constexpr size_t kBytesPerTurn = 4 << 20;  // then the other links have their turn
constexpr int kDrainTurns = 64;            // of a peer that is dead
constexpr int kConnectPollMs = 2;
constexpr uint32_t kAlways = EPOLLIN | EPOLLRDHUP;

std::string error_text(int error) { return std::generic_category().message(error); }

uint64_t next_link_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// The descriptors of one message, in the form that the kernel wants them.
struct ControlMessage {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int) * kFrameDescriptors)];

  void attach(msghdr* message,
              const std::vector<std::shared_ptr<const runtime::Descriptor>>& descriptors) {
    std::memset(bytes, 0, sizeof(bytes));
    message->msg_control = bytes;
    message->msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    cmsghdr* head = CMSG_FIRSTHDR(message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    for (size_t i = 0; i < descriptors.size(); ++i) {
      const int number = descriptors[i]->get();
      std::memcpy(CMSG_DATA(head) + i * sizeof(int), &number, sizeof(int));
    }
  }

  static std::vector<runtime::Descriptor> take(msghdr* message) {
    std::vector<runtime::Descriptor> taken;
    for (cmsghdr* head = CMSG_FIRSTHDR(message); head != nullptr;
         head = CMSG_NXTHDR(message, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int number = -1;
        std::memcpy(&number, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
        taken.emplace_back(number);
      }
    }
    return taken;
  }
};

// One attempt. A full backlog blocks up to the time left, as the kernel does for Unix sockets.
Result<runtime::Descriptor> connect_once(const ConnectRequest& request, int64_t left_ns) {
  OVERLORD_TRY(const SocketDirectory directory, SocketDirectory::find(request.directory));
  const std::string path = directory.address_of(request.socket);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return invalid_argument("the socket path " + quote(path) + " is too long");
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  runtime::Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Status(Code::kResource, "cannot make a socket: " + error_text(errno));
  const int64_t left_us = std::max<int64_t>(left_ns / 1000, 1000);
  const timeval limit = {static_cast<time_t>(left_us / 1'000'000),
                         static_cast<suseconds_t>(left_us % 1'000'000)};
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return socket;
  }
  const std::string where = quote(request.directory + "/" + request.socket);
  if (errno == ENOENT || errno == ECONNREFUSED) {
    return not_found("nobody listens at " + where);
  }
  if (errno == EAGAIN || errno == EINTR) {
    return Status(Code::kUnavailable, "the listener at " + where + " does not accept");
  }
  return Status(Code::kResource, "cannot connect to " + where + ": " + error_text(errno));
}

}  // namespace

void UnixLink::Queued::add_pieces(std::vector<iovec>* pieces) const {
  uint64_t skip = sent_bytes;
  const auto add = [&](const char* data, size_t size) {
    const uint64_t skipped = std::min<uint64_t>(skip, size);
    skip -= skipped;
    if (skipped < size && pieces->size() < kWritePieces) {
      pieces->push_back({const_cast<char*>(data) + skipped, size - skipped});
    }
  };
  add(head.data(), head.size());
  for (const runtime::Bytes& piece : frame.pieces) add(piece.data, piece.size);
}

class UnixLink::DeathWatch final : public Watcher {
 public:
  explicit DeathWatch(std::weak_ptr<UnixLink> link) : link_(std::move(link)) {}
  void ready(uint32_t) override {
    if (const auto link = link_.lock()) link->peer_died();
  }
  void stopped() override {}

 private:
  const std::weak_ptr<UnixLink> link_;
};

UnixLink::UnixLink(std::shared_ptr<EventLoop> loop, runtime::Descriptor socket, LinkOptions options,
                   PeerProcess peer)
    : id_(next_link_id()),
      loop_(std::move(loop)),
      options_(std::move(options)),
      peer_(peer),
      socket_(std::move(socket)),
      reader_(options_.max_frame_bytes) {}

UnixLink::~UnixLink() = default;

std::string UnixLink::who() const {
  return options_.name + " (process " + std::to_string(peer_.pid) + ")";
}

Result<std::shared_ptr<UnixLink>> UnixLink::connect(const std::shared_ptr<EventLoop>& loop,
                                                    const ConnectRequest& request,
                                                    LinkOptions options, LinkCallbacks callbacks) {
  while (true) {
    const int64_t left_ns = request.deadline_ns - steady_now_ns();
    Result<runtime::Descriptor> socket = connect_once(request, left_ns);
    if (socket.ok()) {
      return adopt(loop, std::move(*socket), std::move(options),
                   [&callbacks](UnixLink&) { return std::move(callbacks); });
    }
    const Code code = socket.status().code();
    const bool absent = code == Code::kNotFound;
    if (absent && !request.wait_for_listener) {
      return Status(Code::kUnavailable, socket.status().message());
    }
    if (!absent && code != Code::kUnavailable) return socket.status();
    if (steady_now_ns() >= request.deadline_ns) {
      return Status(Code::kDeadline, socket.status().message() + " before the deadline");
    }
    poll(nullptr, 0, kConnectPollMs);
  }
}

Result<std::shared_ptr<UnixLink>> UnixLink::adopt(const std::shared_ptr<EventLoop>& loop,
                                                  runtime::Descriptor socket, LinkOptions options,
                                                  const MakeCallbacks& make_callbacks) {
  OVERLORD_TRY(const PeerProcess peer, peer_of(socket.get()));
  OVERLORD_RETURN_IF_ERROR(check_same_user(peer));
  const int flags = fcntl(socket.get(), F_GETFL);
  if (flags < 0 || fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return Status(Code::kResource, "cannot make a socket non-blocking: " + error_text(errno));
  }
  std::shared_ptr<UnixLink> link(new UnixLink(loop, std::move(socket), std::move(options), peer));
  link->callbacks_ = make_callbacks(*link);
  if (loop->on_loop_thread()) {
    link->begin();
  } else if (!loop->post([link] { link->begin(); })) {
    return Status(Code::kCancelled, "the event loop has ended");
  }
  return link;
}

void UnixLink::begin() {
  Result<EventLoop::Token> token = loop_->watch(socket_.get(), kAlways, shared_from_this());
  if (!token.ok()) return end_with(token.status());
  token_ = *token;
  death_ = death_of(socket_.get(), peer_);
  if (!death_.valid()) return;
  // Without it the closed socket alone tells of the peer's end.
  Result<EventLoop::Token> death =
      loop_->watch(death_.get(), EPOLLIN, std::make_shared<DeathWatch>(weak_from_this()));
  if (death.ok()) death_token_ = *death;
}

Status UnixLink::send(const std::string& payload) {
  return send(OutgoingFrame{{runtime::Bytes::copy_of(payload)}, {}});
}

Status UnixLink::send(OutgoingFrame frame) {
  uint64_t size_bytes = 0;
  for (const runtime::Bytes& piece : frame.pieces) size_bytes += piece.size;
  if (size_bytes > options_.max_frame_bytes || frame.descriptors.size() > kFrameDescriptors) {
    return invalid_argument("a frame of " + std::to_string(size_bytes) + " bytes and " +
                            std::to_string(frame.descriptors.size()) + " descriptors for " + who() +
                            ", at most " + std::to_string(options_.max_frame_bytes) + " and " +
                            std::to_string(kFrameDescriptors) + " are allowed");
  }
  if (loop_->in_forked_child()) {
    return invalid_argument("the link to " + who() +
                            " belongs to the process that this one was forked from: open the job "
                            "in each process, or start processes with spawn");
  }
  const auto head = frame_head(static_cast<uint32_t>(frame.descriptors.size()), size_bytes);
  const uint64_t total_bytes = size_bytes + kFrameHeadBytes;
  std::vector<Queued> done;
  std::lock_guard lock(mutex_);
  if (phase_ != Phase::kOpen) return {Code::kUnavailable, "the link to " + who() + " is closed"};
  if (!queue_.empty() && stats_.queued_bytes + total_bytes > options_.queue_limit_bytes) {
    ++stats_.refused_count;
    return {Code::kResource,
            "the queue to " + who() + " is full: " + std::to_string(stats_.queued_bytes) +
                " bytes wait, the limit is " + std::to_string(options_.queue_limit_bytes)};
  }
  queue_.push_back({head, std::move(frame), total_bytes, 0});
  ++stats_.queued_frames;
  stats_.queued_bytes += total_bytes;
  stats_.queued_bytes_peak = std::max(stats_.queued_bytes_peak, stats_.queued_bytes);
  if (flush_posted_) return {};
  // On the loop's thread frames of one turn go together; elsewhere the first one goes at once,
  // which saves the loop's waking up.
  if (total_bytes <= kInlineBytes && !loop_->on_loop_thread() &&
      write_queued(&done) == Progress::kAll) {
    return {};
  }
  post_flush();
  return {};
}

void UnixLink::post_flush() {
  flush_posted_ = true;
  loop_->post([self = shared_from_this()] { self->flush(); });
}

UnixLink::Progress UnixLink::write_queued(std::vector<Queued>* done) {
  std::vector<iovec> pieces;
  pieces.reserve(kWritePieces);
  size_t written = 0;
  while (!queue_.empty()) {
    if (written >= kBytesPerTurn) return Progress::kMore;
    msghdr message = {};
    ControlMessage control;
    const Queued& first = queue_.front();
    const bool attach = first.sent_bytes == 0 && !first.frame.descriptors.empty();
    if (attach) control.attach(&message, first.frame.descriptors);
    pieces.clear();
    for (size_t i = 0; i < queue_.size() && pieces.size() < kWritePieces; ++i) {
      // Descriptors go with the first byte of a message: a later frame's begin another message.
      if (i > 0 && !queue_[i].frame.descriptors.empty()) break;
      queue_[i].add_pieces(&pieces);
    }
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    ++stats_.write_calls;
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return Progress::kBlocked;
      write_error_ = errno;
      return Progress::kBroken;
    }
    written += static_cast<size_t>(sent);
    stats_.bytes_sent += static_cast<uint64_t>(sent);
    stats_.queued_bytes -= static_cast<uint64_t>(sent);
    uint64_t left = static_cast<uint64_t>(sent);
    while (left > 0) {
      Queued& front = queue_.front();
      const uint64_t part = std::min(left, front.total_bytes - front.sent_bytes);
      front.sent_bytes += part;
      left -= part;
      if (front.sent_bytes < front.total_bytes) break;
      done->push_back(std::move(front));
      queue_.pop_front();
      ++stats_.frames_sent;
      --stats_.queued_frames;
    }
  }
  return Progress::kAll;
}

void UnixLink::flush() {
  std::vector<Queued> done;
  Progress progress = Progress::kAll;
  bool finished = false;
  int error = 0;
  {
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::kClosed || phase_ == Phase::kClosing) return;
    flush_posted_ = false;
    progress = write_queued(&done);
    error = write_error_;
    if (progress == Progress::kMore) post_flush();
    if (progress == Progress::kBlocked) flush_posted_ = true;  // the socket will tell
    finished = progress == Progress::kAll && phase_ == Phase::kFinishing;
  }
  const bool blocked = progress == Progress::kBlocked;
  if (blocked != watches_output_ && token_ != 0) {
    watches_output_ = blocked;
    loop_->change(token_, kAlways | (blocked ? uint32_t{EPOLLOUT} : 0u));
  }
  if (progress == Progress::kBroken) {
    return drain_and_close("cannot be written to: " + error_text(error));
  }
  if (finished) end_with({Code::kCancelled, "the link to " + who() + " was closed here"});
}

void UnixLink::ready(uint32_t events) {
  if ((events & EPOLLOUT) != 0) flush();
  if (token_ != 0 && (events & ~uint32_t{EPOLLOUT}) != 0) read_some();
}

// Reads what is there, up to a turn's share.
bool UnixLink::read_some() {
  size_t total = 0;
  while (token_ != 0 && total < kBytesPerTurn) {
    const std::span<char> scratch = loop_->scratch();
    const std::span<char> space = reader_.space(scratch);
    iovec piece = {space.data(), space.size()};
    ControlMessage control;
    msghdr message = {};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    const ssize_t taken = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0 && errno == EAGAIN) return true;
    if (taken <= 0) {
      const std::string how = taken < 0                ? "was cut off: " + error_text(errno)
                              : reader_.in_mid_frame() ? "hung up in the middle of a frame"
                                                       : "hung up";
      end_with({Code::kUnavailable, who() + " " + how});
      return false;
    }
    std::vector<runtime::Descriptor> descriptors = ControlMessage::take(&message);
    std::vector<ReceivedFrame> frames;
    Status status =
        (message.msg_flags & MSG_CTRUNC) == 0
            ? reader_.arrived(scratch, static_cast<size_t>(taken), std::move(descriptors), &frames)
            : bad_data("descriptors were lost: too many at once, or this process may open no more");
    total += static_cast<size_t>(taken);
    {
      std::lock_guard lock(mutex_);
      stats_.bytes_received += static_cast<uint64_t>(taken);
      stats_.frames_received += frames.size();
    }
    // What came whole before the garbage was well-formed and is delivered.
    if (!deliver(std::move(frames))) return false;
    if (!status.ok()) {
      end_with(status.with_context(who() + " was dropped"));
      return false;
    }
    if (static_cast<size_t>(taken) < space.size() && (message.msg_controllen == 0)) return true;
  }
  return token_ != 0;
}

bool UnixLink::deliver(std::vector<ReceivedFrame> frames) {
  for (ReceivedFrame& frame : frames) {
    if (callbacks_.received) callbacks_.received(*this, std::move(frame));
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::kClosing || phase_ == Phase::kClosed) return false;
  }
  return true;
}

// The peer cannot be written to any more, but what it said last is still worth hearing.
void UnixLink::drain_and_close(const std::string& why) {
  for (int turn = 0; turn < kDrainTurns; ++turn) {
    const uint64_t before = stats().bytes_received;
    if (!read_some()) break;
    if (stats().bytes_received == before) break;
  }
  end_with({Code::kUnavailable, who() + " " + why});
}

void UnixLink::peer_died() { drain_and_close("died"); }

void UnixLink::stopped() {
  token_ = 0;
  end_with({Code::kCancelled, "the link to " + who() + " was closed with its event loop"});
}

void UnixLink::finish() {
  std::lock_guard lock(mutex_);
  if (phase_ != Phase::kOpen) return;
  phase_ = Phase::kFinishing;
  if (!flush_posted_) post_flush();
}

void UnixLink::close() {
  std::lock_guard lock(mutex_);
  if (phase_ == Phase::kClosing || phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosing;
  loop_->post([self = shared_from_this()] {
    self->end_with({Code::kCancelled, "the link to " + self->who() + " was closed here"});
  });
}

void UnixLink::end_with(Status why) {
  const std::shared_ptr<UnixLink> self = shared_from_this();  // until the end of this function
  runtime::Descriptor socket;
  std::deque<Queued> unsent;
  {
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::kClosed) return;
    phase_ = Phase::kClosed;
    unsent.swap(queue_);
    stats_.queued_frames = stats_.queued_bytes = 0;
  }
  if (death_token_ != 0) loop_->unwatch(std::exchange(death_token_, 0));
  death_.reset();
  if (token_ != 0) loop_->unwatch(std::exchange(token_, 0));
  {
    std::lock_guard lock(mutex_);  // a sender may be in the middle of a write
    socket = std::move(socket_);
  }
  socket.reset();
  const LinkCallbacks callbacks = std::exchange(callbacks_, {});
  if (callbacks.closed) callbacks.closed(*this, why);
}

LinkStats UnixLink::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace overlord::transport
