// HostPinning: registers memory with CUDA, so that the device copies from it at full speed and
// beside the host's work. The driver's library is found when it is asked for: nothing here is
// linked with CUDA, and a machine without it says so in one clear error.
#pragma once

#include <cstddef>
#include <memory>

#include "overlord/base/status.h"

namespace overlord::transport {

class HostPinning {
 public:
  virtual ~HostPinning() = default;
  // Once per mapping, for its whole life. Read-only maps may be registered: the device reads them.
  virtual Status pin(const void* data, size_t size_bytes) = 0;
  virtual void unpin(const void* data) = 0;  // before the mapping goes
};

// Of the process's CUDA device `device`, through its primary context, the one that PyTorch and the
// runtime library use. kUnavailable where there is no driver, no such device, or no permission.
Result<std::shared_ptr<HostPinning>> cuda_pinning(int device);

}  // namespace overlord::transport
