// LocalStorage: files of this machine behind the Storage seam. Plain paths and file:// URIs.
// pread into pooled buffers on I/O threads of its own; open descriptors are kept in an LRU.
// Requests hold no memory until they start. Destruction ends within one 4 MiB read: what is
// running or waiting is answered with kCancelled.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/buffer.h"
#include "overlord/runtime/seams.h"
#include "overlord/storage/file_handles.h"

namespace overlord::storage {

class LocalStorage final : public runtime::Storage {
 public:
  LocalStorage(std::shared_ptr<runtime::BufferPool> pool, uint32_t io_threads, uint32_t open_files);
  ~LocalStorage() override;

  // kResource when the system gave no thread to read with: then reads would wait for ever.
  Status status() const;

  void read(runtime::ReadRequest request, runtime::CancelToken cancel,
            runtime::ReadDone done) override;
  Result<runtime::Bytes> read_blocking(const runtime::ReadRequest& request) override;
  Result<runtime::FileInfo> stat(const std::string& uri) override;
  Result<std::vector<std::string>> list(const std::string& pattern) override;
  Result<std::vector<runtime::ListedFile>> list_folder(const std::string& uri,
                                                       uint64_t most) override;

  size_t open_files() const { return handles_.open_count(); }

 private:
  struct Pending {
    runtime::ReadRequest request;
    runtime::CancelToken cancel;
    runtime::ReadDone done;
  };

  void work();
  Result<runtime::Bytes> read_now(const runtime::ReadRequest& request,
                                  const runtime::CancelToken* cancel);

  const std::shared_ptr<runtime::BufferPool> pool_;
  FileHandles handles_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Pending> queue_ OVERLORD_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace overlord::storage
