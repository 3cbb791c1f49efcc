// Which Storage serves which URIs: the one place that knows. file:// and plain paths by
// LocalStorage, s3:// by ObjectStorage; a store of another scheme joins here, and nobody else hears
// of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "overlord/base/status.h"
#include "overlord/runtime/buffer.h"
#include "overlord/runtime/seams.h"

namespace overlord::storage {

struct StorageOptions {
  std::shared_ptr<runtime::BufferPool> pool;  // what is read lies there
  uint32_t io_threads = 1;
  uint32_t open_files = 1;
};

// One that reads all of these URIs and patterns. kInvalidArgument names a scheme that nothing
// serves, and those that there are; kResource: no thread to read with.
Result<std::unique_ptr<runtime::Storage>> open_storage(std::span<const std::string> uris,
                                                       StorageOptions options);

}  // namespace overlord::storage
