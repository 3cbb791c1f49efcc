// What bytes cost on their way to another host: for `overlord bench transport`. Two processes, a
// sender and a taker, either over the wire as a loader and a constructor of another host do, or
// over bare TCP sockets that do the least anybody can: the same slices, dealt to as many
// connections, received straight into buffers of the same pool. The taker orders batches, a few
// ahead, so that both ways are pulled and bounded alike.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "overlord/base/status.h"
#include "overlord/transport/wire/wire.h"

namespace overlord::bench {

struct TransportRun {
  bool raw = false;     // bare TCP
  std::string address;  // HOST:PORT, to listen on or to call
  uint64_t batch_bytes = 16 << 20;
  uint32_t batches = 64;  // that are measured, after some that are not
  uint32_t streams = 4;
  uint64_t slice_bytes = 8 << 20;
  transport::WireSecurity security;  // of the wire; bare TCP has none
};

struct TransportFigures {
  uint64_t bytes = 0;
  double wall_s = 0;
  double cpu_s = 0;  // of this side
};

// Sends what is ordered until the taker is gone. `listening` hears where, before anybody can call.
Result<TransportFigures> send_batches(const TransportRun& run,
                                      const std::function<void(const std::string&)>& listening);
Result<TransportFigures> take_batches(const TransportRun& run);

}  // namespace overlord::bench
