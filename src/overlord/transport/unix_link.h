// UnixLink: frames between two processes of one user over a Unix stream socket, in order, with
// descriptors attached where wanted. send() may be called from any thread and never blocks: small
// frames are written at once when nothing waits, others are queued and written by the loop's
// thread, many with one call. Both callbacks run on the loop's thread. A peer that sends what is no
// frame, or dies, or hangs up, ends the link: `closed` is told once and nothing comes after it.
// Shared by its user and, until it is closed, by the loop. It knows nothing of what frames mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/buffer.h"
#include "overlord/runtime/descriptor.h"
#include "overlord/transport/event_loop.h"
#include "overlord/transport/link_frames.h"
#include "overlord/transport/peer_process.h"

struct iovec;

namespace overlord::transport {

class UnixLink;

struct LinkOptions {
  std::string name = "a peer";             // whom it leads to, for messages
  uint64_t max_frame_bytes = 128 << 20;    // both ways
  uint64_t queue_limit_bytes = 256 << 20;  // waiting to be sent; one frame passes alone
};

struct LinkCallbacks {
  std::function<void(UnixLink&, ReceivedFrame)> received;
  // kUnavailable: the peer hung up or died. kBadData: it sent garbage. kCancelled: closed here.
  std::function<void(UnixLink&, const Status&)> closed;
};

struct LinkStats {
  uint64_t frames_sent = 0;
  uint64_t bytes_sent = 0;
  uint64_t frames_received = 0;
  uint64_t bytes_received = 0;
  uint64_t queued_frames = 0;  // now
  uint64_t queued_bytes = 0;
  uint64_t queued_bytes_peak = 0;
  uint64_t refused_count = 0;  // frames that did not fit into the queue
  uint64_t write_calls = 0;
};

// What a frame consists of, one piece after another; nothing is copied but by the kernel.
struct OutgoingFrame {
  std::vector<runtime::Bytes> pieces;
  std::vector<std::shared_ptr<const runtime::Descriptor>> descriptors;
};

// Where to connect: a socket in a SocketDirectory.
struct ConnectRequest {
  std::string directory;
  std::string socket;
  int64_t deadline_ns = 0;        // of the steady clock
  bool wait_for_listener = true;  // else nobody listening is kUnavailable at once
};

class UnixLink final : public Watcher, public std::enable_shared_from_this<UnixLink> {
 public:
  // Waits in the caller's thread. kDeadline, kUnavailable, or what SocketDirectory::find() says.
  static Result<std::shared_ptr<UnixLink>> connect(const std::shared_ptr<EventLoop>& loop,
                                                   const ConnectRequest& request,
                                                   LinkOptions options, LinkCallbacks callbacks);
  // Over a connected socket. kInvalidArgument when the peer is another user's.
  using MakeCallbacks = std::function<LinkCallbacks(UnixLink&)>;
  static Result<std::shared_ptr<UnixLink>> adopt(const std::shared_ptr<EventLoop>& loop,
                                                 runtime::Descriptor socket, LinkOptions options,
                                                 const MakeCallbacks& make_callbacks);
  ~UnixLink() override;

  // kUnavailable after the end of the link, kResource when the queue is full, kInvalidArgument for
  // a frame that is too large and in a forked child.
  Status send(OutgoingFrame frame);
  Status send(const std::string& payload);
  // Sends what is queued, then closes. Later frames are refused.
  void finish();
  // Closes without sending what is queued.
  void close();

  uint64_t id() const { return id_; }  // unique in this process, never used again
  const std::string& name() const { return options_.name; }
  const PeerProcess& peer() const { return peer_; }
  LinkStats stats() const;

 private:
  struct Queued {
    FrameHead head;
    OutgoingFrame frame;
    uint64_t total_bytes = 0;  // head included
    uint64_t sent_bytes = 0;

    // Adds what is left of it to `pieces`, as far as they go.
    void add_pieces(std::vector<::iovec>* pieces) const;
  };
  class DeathWatch;
  enum class Phase { kOpen, kFinishing, kClosing, kClosed };
  enum class Progress { kAll, kBlocked, kMore, kBroken };

  UnixLink(std::shared_ptr<EventLoop> loop, runtime::Descriptor socket, LinkOptions options,
           PeerProcess peer);
  void ready(uint32_t events) override;
  void stopped() override;

  void begin();  // on the loop's thread
  // With mutex_ held; frames that are done are moved out, to be destroyed without it.
  Progress write_queued(std::vector<Queued>* done) OVERLORD_REQUIRES(mutex_);
  void flush();
  void post_flush() OVERLORD_REQUIRES(mutex_);
  bool read_some();  // false: the link is closed
  bool deliver(std::vector<ReceivedFrame> frames);
  void drain_and_close(const std::string& why);
  void peer_died();
  void end_with(Status why);
  std::string who() const;

  const uint64_t id_;
  const std::shared_ptr<EventLoop> loop_;
  const LinkOptions options_;
  const PeerProcess peer_;

  mutable std::mutex mutex_;
  runtime::Descriptor socket_;  // written under mutex_, read by the loop's thread
  std::deque<Queued> queue_ OVERLORD_GUARDED_BY(mutex_);
  Phase phase_ OVERLORD_GUARDED_BY(mutex_) = Phase::kOpen;
  bool flush_posted_ OVERLORD_GUARDED_BY(mutex_) =
      false;  // or the loop waits until the socket can take more
  int write_error_ OVERLORD_GUARDED_BY(mutex_) = 0;
  LinkStats stats_ OVERLORD_GUARDED_BY(mutex_);

  // The loop's thread only.
  LinkCallbacks callbacks_;
  FrameReader reader_;
  EventLoop::Token token_ = 0;
  bool watches_output_ = false;
  runtime::Descriptor death_;
  EventLoop::Token death_token_ = 0;
};

}  // namespace overlord::transport
