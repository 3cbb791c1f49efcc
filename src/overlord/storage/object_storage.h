// ObjectStorage: objects of a bucket behind the Storage seam. An object's fingerprint is its size
// and ETag; reads are of that version. What one listing told is asked for by nobody again, once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/seams.h"
#include "overlord/store/object_store.h"

namespace overlord::storage {

class ObjectStorage final : public runtime::Storage {
 public:
  explicit ObjectStorage(std::unique_ptr<store::ObjectStore> store);

  void read(runtime::ReadRequest request, runtime::CancelToken cancel,
            runtime::ReadDone done) override;
  Result<runtime::Bytes> read_blocking(const runtime::ReadRequest& request) override;
  Result<runtime::FileInfo> stat(const std::string& uri) override;
  Result<std::vector<std::string>> list(const std::string& pattern) override;
  Result<std::vector<runtime::ListedFile>> list_folder(const std::string& uri,
                                                       uint64_t most) override;

 private:
  // Keys by what was listed: names of one pattern share them.
  using Listings = std::map<std::pair<std::string, bool>, std::vector<std::string>>;

  Result<std::vector<std::string>> list_one(const std::string& pattern, Listings* listings);
  // Without what stands for a folder; remembered for stat().
  Result<std::vector<store::ObjectInfo>> objects_under(store::ListRequest request);
  Result<std::vector<std::string>> keys_under(const std::string& bucket, const std::string& prefix,
                                              bool one_level);
  bool take_listed(const std::string& uri, model::Fingerprint* out);
  bool should_list(const std::string& folder);

  std::mutex mutex_;
  // Of listings; each entry answers one stat(), so that a later one is of its own time.
  std::unordered_map<std::string, model::Fingerprint> listed_ OVERLORD_GUARDED_BY(mutex_);
  // How many objects of a folder were asked for one by one.
  std::unordered_map<std::string, uint32_t> asked_ OVERLORD_GUARDED_BY(mutex_);
  std::mutex listing_mutex_;  // one listing at a time: others may find its answers
  const std::unique_ptr<store::ObjectStore> store_;
};

}  // namespace overlord::storage
