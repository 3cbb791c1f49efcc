// Endpoint: one process's place in the conversation of a job on one host: its event loop, the
// socket it listens on, the processes it calls. Every connection begins with a Hello from both
// sides; after that its frames are the Carrier's. All callbacks come on the loop's thread, on which
// call(), drop() and the like belong too, except before the first call() or listen().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/protocol/control.h"
#include "overlord/runtime/seams.h"
#include "overlord/transport/carrier.h"
#include "overlord/transport/event_loop.h"
#include "overlord/transport/socket_directory.h"
#include "overlord/transport/unix_link.h"
#include "overlord/transport/unix_listener.h"
#include "overlord/transport/wire/wire.h"

namespace overlord::transport {

struct EndpointOptions {
  std::string directory;  // 0700, of this job
  protocol::Hello self;
  // Between hosts; a process may have another name there.
  WireSecurity security;
  WireLimits limits;
  std::string wire_name;
  std::shared_ptr<runtime::BufferPool> pool;  // for large frames from other hosts
  // May this process talk to us? Not ok: it is told why and dropped. Null: nobody may.
  std::function<Status(const protocol::Hello&)> admit;
  std::function<void(const protocol::Hello&)> connected;
  std::function<void(const std::string& peer)> lost;
  // A process that we called refused us; it is not called again.
  std::function<void(const std::string& peer, const Status&)> refused;
};

// As an executor it runs tasks on the loop's thread: for roles that do little.
class Endpoint final : public runtime::Executor {
 public:
  static Result<std::unique_ptr<Endpoint>> open(EndpointOptions options, Carrier* carrier);
  ~Endpoint() override;

  // At DIRECTORY/NAME; what a dead process of that name left is replaced.
  Status listen(const std::string& name);
  // For processes of other hosts; gives the address with its port. Before anything else.
  Result<std::string> listen_wire(const std::string& address);
  // Calls a process until it answers, on this host or, with its address, on another. Of several
  // addresses, with commas between, each is tried in turn; one that refuses for kUnavailable is
  // another process, which knows of no better. Nothing to do when it is connected.
  void call(const std::string& peer, const std::string& wire = "");
  // What is said to those that are called from now on.
  void introduce(protocol::Hello self) { options_.self = std::move(self); }
  // Sends a process away.
  void drop(const std::string& peer, const Status& why);

  void post(runtime::Task task) override;
  void post_after(int64_t delay_ns, runtime::Task task) override;
  // From any thread but the loop's; afterwards no callback runs.
  void close();

 private:
  class Adapter;
  class Timers;
  struct Connection;
  using ConnectionPtr = std::shared_ptr<Connection>;

  Endpoint(EndpointOptions options, Carrier* carrier)
      : options_(std::move(options)), carrier_(carrier) {}
  Status prepare();
  LinkCallbacks callbacks_for(const ConnectionPtr& connection);
  void try_call(const std::string& peer);
  void call_wire(const std::string& peer, const std::string& address);
  WireCallbacks wire_callbacks(const ConnectionPtr& connection);
  protocol::Hello self_for(const Connection& connection) const;
  void call_again(const std::string& peer);
  bool call_next(const std::string& peer, const Status& why);
  void on_frame(const ConnectionPtr& connection, ReceivedFrame frame);
  void on_closed(const ConnectionPtr& connection, const Status& why);
  void greet(const ConnectionPtr& connection, const protocol::Hello& hello);
  void refuse(const ConnectionPtr& connection, const Status& why);

  EndpointOptions options_;
  Carrier* carrier_;
  std::unique_ptr<LoopThread> thread_;
  std::shared_ptr<EventLoop> loop_;
  std::shared_ptr<Timers> timers_;
  std::shared_ptr<UnixListener> listener_;
  std::unique_ptr<WireServer> wire_;
  // Connecting over the wire waits, so not on the loop's thread. One for each peer: a host may be
  // called for days.
  std::map<std::string, std::thread> callers_ OVERLORD_GUARDED_BY(callers_mutex_);
  std::mutex callers_mutex_;
  std::atomic<bool> closing_{false};
  // The loop's thread only.
  std::map<std::string, std::string> calling_;    // wire address; empty: on this host
  std::map<std::string, size_t> turns_;           // tries that failed, by peer
  std::vector<LinkPtr> buried_;                   // links over the wire that have closed
  std::map<std::string, ConnectionPtr> talking_;  // connections that have begun, by peer
};

}  // namespace overlord::transport
