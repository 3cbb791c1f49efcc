#include "overlord/storage/open_storage.h"

#include "overlord/storage/local_storage.h"
#include "overlord/storage/local_uri.h"

namespace overlord::storage {

Result<std::unique_ptr<runtime::Storage>> open_storage(std::span<const std::string> uris,
                                                       StorageOptions options) {
  for (const std::string& uri : uris) OVERLORD_RETURN_IF_ERROR(local_path(uri).status());
  auto local = std::make_unique<LocalStorage>(std::move(options.pool), options.io_threads,
                                              options.open_files);
  OVERLORD_RETURN_IF_ERROR(local->status());
  return std::unique_ptr<runtime::Storage>(std::move(local));
}

}  // namespace overlord::storage
