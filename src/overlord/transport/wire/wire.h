// The wire: links between processes of different hosts, over Arrow Flight. A connector calls an
// acceptor; both then have a Link. Small frames travel in calls that each have a deadline and a
// sequence number, so that a lost call is repeated and nothing comes twice. Large frames towards
// the connector are pulled by it, in slices over connections of their own, into its own pool: they
// never stand in the way of small ones, and frames that come after them may overtake them. A side
// that hears nothing for `silence_ns` takes the other for dead.
//
// Beyond loopback both need TLS and a token; without them nothing is opened. No call is answered
// without the token. What comes from outside is checked before anything is allocated.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "overlord/base/status.h"
#include "overlord/runtime/buffer.h"
#include "overlord/transport/link.h"

namespace overlord::transport {

struct WireSecurity {
  std::string token;        // shared by all processes of a job; never printed
  std::string certificate;  // PEM of the acceptor's chain; empty: no TLS
  std::string private_key;  // PEM
  std::string authority;    // PEM of whom a connector believes; empty with TLS: the system's
};

struct WireLimits {
  uint64_t bulk_bytes = 256 << 10;          // a larger frame is pulled
  uint64_t slice_bytes = 8 << 20;           // of one pull
  uint32_t connections = 3;                 // for pulls
  uint64_t credit_bytes = 256 << 20;        // being pulled at a time; one frame passes alone
  uint64_t max_frame_bytes = 1ull << 30;    // of one frame
  uint64_t queue_limit_bytes = 1ull << 30;  // waiting to be taken; beyond it the link is closed
  uint32_t max_sessions = 4096;             // of an acceptor
  int64_t call_ns = 5'000'000'000;          // deadline of every call
  int64_t silence_ns = 5'000'000'000;
};

// Both are called on threads of the wire; `closed` once, and nothing after it.
struct WireCallbacks {
  std::function<void(runtime::Bytes frame)> received;
  std::function<void(const Status&)> closed;
};

// "HOST:PORT", an IPv6 host in brackets. Whether it names this host only.
Result<bool> is_loopback(const std::string& address);

class WireServer {
 public:
  // Called with a new link before anything arrives on it.
  using Accepted = std::function<WireCallbacks(const LinkPtr& link, const std::string& peer)>;

  // kInvalidArgument for an address beyond loopback without TLS and token.
  static Result<std::unique_ptr<WireServer>> listen(const std::string& address,
                                                    const WireSecurity& security,
                                                    const WireLimits& limits, Accepted accepted);
  virtual ~WireServer() = default;
  virtual std::string address() const = 0;  // with the port it got
  virtual uint64_t refused() const = 0;     // calls without the token, of nobody, or senseless
  virtual void close() = 0;                 // ends every link
};

// Waits in the caller's thread until the other side has answered, at most one call's deadline.
// Pulled frames lie in buffers of `pool`.
Result<LinkPtr> connect_wire(const std::string& address, const WireSecurity& security,
                             const WireLimits& limits, std::shared_ptr<runtime::BufferPool> pool,
                             std::function<WireCallbacks(const LinkPtr&)> make_callbacks);

}  // namespace overlord::transport
