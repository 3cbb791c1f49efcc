#include "overlord/node/indexing.h"

#include "overlord/node/encoders.h"
#include "overlord/runtime/thread_executor.h"
#include "overlord/storage/local_storage.h"

namespace overlord::node {
namespace {

constexpr uint64_t kPoolBytes = uint64_t{64} << 20;
constexpr uint32_t kOpenFiles = 64;

}  // namespace

Status index_source(const model::Source& source, const std::string& path,
                    const columnar::IndexOptions& options,
                    const std::vector<std::string>& worker_command,
                    columnar::IndexProgress* progress, const runtime::CancelToken& cancel) {
  runtime::ThreadExecutor executor(1, "ol-index");
  OVERLORD_RETURN_IF_ERROR(executor.status());
  Encoders encoders(executor, worker_command, options.threads);
  storage::LocalStorage storage(runtime::BufferPool::make(kPoolBytes), 1, kOpenFiles);
  runtime::TextEncoder* encoder = nullptr;
  if (options.lengths) {
    OVERLORD_TRY(encoder, encoders.get(source));
  }
  return columnar::build_index(storage, encoder, source, path, options, progress, cancel);
}

Result<std::vector<std::string>> list_files(const std::string& pattern) {
  storage::LocalStorage storage(runtime::BufferPool::make(0), 1, 1);
  return storage.list(pattern);
}

}  // namespace overlord::node
