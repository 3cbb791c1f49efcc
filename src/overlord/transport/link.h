// Link: an open connection to one other process, over which whole frames travel in order.
// Thread-safe; a frame that is sent after the link has closed is dropped, and the closing is told.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "overlord/runtime/buffer.h"
#include "overlord/runtime/descriptor.h"

namespace overlord::transport {

class Link {
 public:
  virtual ~Link() = default;
  // Never blocks. Descriptors travel with few frames only.
  virtual void send(std::string frame, std::vector<runtime::Descriptor> descriptors) = 0;
  void send(std::string frame) { send(std::move(frame), {}); }
  // A frame in memory that somebody holds; large ones are sent from there where the link can.
  virtual void send_held(const runtime::Bytes& frame) {
    send(std::string(frame.data, frame.size), {});
  }
  virtual void close() = 0;
};

using LinkPtr = std::shared_ptr<Link>;

}  // namespace overlord::transport
