// MemoryStorage: objects in memory behind the Storage seam, for tests, demos and as the bottom of
// the simulator's storage. Thread-safe; answers at once, without recursing.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/runtime/seams.h"

namespace overlord::runtime {

class MemoryStorage final : public Storage {
 public:
  // Makes or replaces an object. Like a file system, a replaced object has a new modification time.
  void put(const std::string& uri, std::string bytes);
  void remove(const std::string& uri);

  void read(ReadRequest request, CancelToken cancel, ReadDone done) override;
  Result<Bytes> read_blocking(const ReadRequest& request) override;
  Result<FileInfo> stat(const std::string& uri) override;
  // Knows `*` and `?` inside a URI; `*` also crosses slashes.
  Result<std::vector<std::string>> list(const std::string& pattern) override;
  Result<std::vector<ListedFile>> list_folder(const std::string& uri, uint64_t most) override;

  uint64_t reads() const;

 private:
  struct Object {
    std::shared_ptr<const std::string> bytes;
    model::Fingerprint fingerprint;
  };
  struct Pending {
    Result<Bytes> answer;
    ReadDone done;
  };

  mutable std::mutex mutex_;
  std::map<std::string, Object> objects_ OVERLORD_GUARDED_BY(mutex_);
  int64_t version_ OVERLORD_GUARDED_BY(mutex_) = 0;
  uint64_t reads_ OVERLORD_GUARDED_BY(mutex_) = 0;
  std::deque<Pending> pending_ OVERLORD_GUARDED_BY(mutex_);
  bool answering_ OVERLORD_GUARDED_BY(mutex_) =
      false;  // some stack is already working off `pending_`
};

}  // namespace overlord::runtime
