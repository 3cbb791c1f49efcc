// SlowStorage: objects in memory whose reads take their own time each, so that answers overtake one
// another; they may be stuck for long, or fail. Test only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "overlord/runtime/in_memory/memory_storage.h"
#include "overlord/sim/world.h"

namespace overlord::sim {

struct StorageStorm {
  Spells late;                // some are stuck: they last longer than anything else
  uint64_t failing_read = 0;  // this one fails, and all behind it; 0: none
};

class SlowStorage final : public runtime::Storage {
 public:
  SlowStorage(World& world, runtime::MemoryStorage& objects, StorageStorm storm = {})
      : world_(world), objects_(objects), storm_(storm) {}

  void read(runtime::ReadRequest request, runtime::CancelToken cancel,
            runtime::ReadDone done) override;
  Result<runtime::Bytes> read_blocking(const runtime::ReadRequest& request) override {
    return objects_.read_blocking(request);
  }
  Result<runtime::FileInfo> stat(const std::string& uri) override { return objects_.stat(uri); }
  Result<std::vector<std::string>> list(const std::string& pattern) override {
    return objects_.list(pattern);
  }
  Result<std::vector<runtime::ListedFile>> list_folder(const std::string& uri,
                                                       uint64_t most) override {
    return objects_.list_folder(uri, most);
  }

 private:
  int64_t trouble_ns();

  World& world_;
  runtime::MemoryStorage& objects_;
  StorageStorm storm_;
  uint64_t reads_ = 0;
};

}  // namespace overlord::sim
