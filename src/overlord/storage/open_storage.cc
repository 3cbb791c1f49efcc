#include "overlord/storage/open_storage.h"

#include <utility>

#include "overlord/storage/local_storage.h"
#include "overlord/storage/local_uri.h"
#include "overlord/storage/object_storage.h"
#include "overlord/store/found_credentials.h"
#include "overlord/store/joined_store.h"
#include "overlord/store/s3_settings.h"
#include "overlord/store/s3_uri.h"

namespace overlord::storage {
namespace {

// A job's data may lie on disks and in object stores.
class RoutedStorage final : public runtime::Storage {
 public:
  RoutedStorage(std::unique_ptr<runtime::Storage> local, std::unique_ptr<runtime::Storage> objects)
      : local_(std::move(local)), objects_(std::move(objects)) {}

  void read(runtime::ReadRequest request, runtime::CancelToken cancel,
            runtime::ReadDone done) override {
    runtime::Storage& storage = of(request.uri);
    storage.read(std::move(request), std::move(cancel), std::move(done));
  }
  Result<runtime::Bytes> read_blocking(const runtime::ReadRequest& request) override {
    return of(request.uri).read_blocking(request);
  }
  Result<runtime::FileInfo> stat(const std::string& uri) override { return of(uri).stat(uri); }
  Result<std::vector<std::string>> list(const std::string& pattern) override {
    return of(pattern).list(pattern);
  }
  Result<std::vector<runtime::ListedFile>> list_folder(const std::string& uri,
                                                       uint64_t most) override {
    return of(uri).list_folder(uri, most);
  }

 private:
  runtime::Storage& of(const std::string& uri) const {
    return store::is_s3_uri(uri) ? *objects_ : *local_;
  }

  const std::unique_ptr<runtime::Storage> local_;
  const std::unique_ptr<runtime::Storage> objects_;
};

Result<std::unique_ptr<runtime::Storage>> open_s3(const StorageOptions& options) {
  store::S3Settings settings = store::s3_settings();
  OVERLORD_TRY(auto s3,
               store::S3Store::make(std::move(settings.options), options.pool,
                                    std::make_shared<store::FoundCredentials>(settings.profile)));
  return std::unique_ptr<runtime::Storage>(
      std::make_unique<ObjectStorage>(std::make_unique<store::JoinedStore>(std::move(s3))));
}

}  // namespace

Result<std::unique_ptr<runtime::Storage>> open_storage(std::span<const std::string> uris,
                                                       StorageOptions options) {
  bool in_store = false;
  bool on_disk = uris.empty();
  for (const std::string& uri : uris) {
    const bool s3 = store::is_s3_uri(uri);
    OVERLORD_RETURN_IF_ERROR(s3 ? store::parse_s3_uri(uri).status() : local_path(uri).status());
    (s3 ? in_store : on_disk) = true;
  }
  std::unique_ptr<runtime::Storage> objects;
  if (in_store) {
    OVERLORD_TRY(objects, open_s3(options));
  }
  if (!on_disk) return objects;
  auto local = std::make_unique<LocalStorage>(std::move(options.pool), options.io_threads,
                                              options.open_files);
  OVERLORD_RETURN_IF_ERROR(local->status());
  if (!in_store) return std::unique_ptr<runtime::Storage>(std::move(local));
  return std::unique_ptr<runtime::Storage>(
      std::make_unique<RoutedStorage>(std::move(local), std::move(objects)));
}

}  // namespace overlord::storage
