// Bare TCP for `overlord bench transport`: whole batches in slices over several connections, with
// nothing between them and the sockets. What the wire is measured against, and used by nothing
// else.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "overlord/base/status.h"
#include "overlord/runtime/buffer.h"

namespace overlord::bench {

struct RawTcpShape {
  uint32_t streams = 4;
  uint64_t slice_bytes = 8 << 20;
};

// The sending end. Callbacks come on threads of its own.
class RawTcpSender {
 public:
  virtual ~RawTcpSender() = default;
  virtual std::string address() const = 0;
  virtual void send(runtime::Bytes batch) = 0;  // never waits
  // Waits for the other end and hands over every byte it says, until it hangs up.
  virtual Status serve(const std::function<void(char)>& said) = 0;

  static Result<std::unique_ptr<RawTcpSender>> listen(const std::string& address,
                                                      const RawTcpShape& shape);
};

// The taking end: slices go from the socket into a buffer of `pool`.
class RawTcpTaker {
 public:
  virtual ~RawTcpTaker() = default;
  virtual void say(char what) = 0;

  static Result<std::unique_ptr<RawTcpTaker>> call(const std::string& address,
                                                   const RawTcpShape& shape,
                                                   std::shared_ptr<runtime::BufferPool> pool,
                                                   std::function<void(runtime::Bytes)> received);
};

}  // namespace overlord::bench
