// UnixListener: accepts links at a socket in a SocketDirectory whose lock is held. Processes of
// other users are refused, and so are links beyond a limit; both are counted. Its callback runs on
// the loop's thread. Closing it removes the socket and leaves the links it accepted alone.
// Shared by its user and, until it is closed, by the loop.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/descriptor.h"
#include "overlord/transport/event_loop.h"
#include "overlord/transport/socket_directory.h"
#include "overlord/transport/unix_link.h"

namespace overlord::transport {

struct ListenOptions {
  std::string socket = "node";  // its name in the directory
  uint64_t max_links = 16384;   // open at a time
  int backlog = 4096;           // connected, not yet accepted
  LinkOptions link;             // of each accepted link; the name gets a number
};

struct ListenStats {
  uint64_t accepted_count = 0;
  uint64_t open_links = 0;
  uint64_t refused_users = 0;  // processes of another user
  uint64_t refused_full = 0;   // beyond max_links, or beyond what this process may open
  uint64_t garbage_count = 0;  // accepted links that ended by what they sent
  std::string last_garbage;    // who, and what was wrong
};

class UnixListener final : public Watcher, public std::enable_shared_from_this<UnixListener> {
 public:
  // A socket that a dead process left is replaced: `lock` is the proof that nobody else listens;
  // null: whoever holds it gave this process the name.
  static Result<std::shared_ptr<UnixListener>> listen(const std::shared_ptr<EventLoop>& loop,
                                                      const SocketDirectory& directory,
                                                      const DirectoryLock* lock,
                                                      ListenOptions options,
                                                      UnixLink::MakeCallbacks accepted);
  ~UnixListener() override;

  // Any thread; the socket's name is gone when it returns, so nobody new connects.
  void close();
  ListenStats stats() const;

 private:
  struct Tally;
  UnixListener(std::shared_ptr<EventLoop> loop, runtime::Descriptor directory,
               runtime::Descriptor socket, ListenOptions options, UnixLink::MakeCallbacks accepted);
  void ready(uint32_t events) override;
  void stopped() override;
  void begin();
  void accept_link(runtime::Descriptor socket);
  void shed_one();
  void remove_name();

  const std::shared_ptr<EventLoop> loop_;
  const runtime::Descriptor directory_;
  const ListenOptions options_;
  const std::shared_ptr<Tally> tally_;  // outlives the listener in the links' callbacks

  std::mutex mutex_;
  ino_t inode_ OVERLORD_GUARDED_BY(mutex_) = 0;  // of the socket's name; 0 once it is removed

  // The loop's thread only.
  UnixLink::MakeCallbacks accepted_;
  runtime::Descriptor socket_;
  runtime::Descriptor spare_;  // given up to refuse a link when no descriptor is left
  EventLoop::Token token_ = 0;
};

}  // namespace overlord::transport
