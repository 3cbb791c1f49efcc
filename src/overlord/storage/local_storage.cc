#include "overlord/storage/local_storage.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "overlord/base/guarded_by.h"
#include "overlord/runtime/quote.h"
#include "overlord/runtime/thread_executor.h"
#include "overlord/storage/glob.h"
#include "overlord/storage/local_uri.h"

namespace overlord::storage {
namespace {

using runtime::Bytes;
using runtime::quote;

// Large reads go in slices, so that a cancelled or stopped one ends soon.
constexpr size_t kSliceBytes = 4 << 20;
// More waiting requests than any credit scheme allows: a caller has lost its flow control.
constexpr size_t kMaxQueued = 1 << 16;

Status cancelled(const runtime::ReadRequest& request) {
  return {Code::kCancelled, "read of " + quote(request.uri) + " was cancelled"};
}

std::string range_text(const runtime::ReadRequest& request) {
  return "offset " + std::to_string(request.offset) + ", size " +
         std::to_string(request.size_bytes);
}

}  // namespace

LocalStorage::LocalStorage(std::shared_ptr<runtime::BufferPool> pool, uint32_t io_threads,
                           uint32_t open_files)
    : pool_(std::move(pool)), handles_(open_files) {
  OVERLORD_CHECK(pool_ != nullptr, "LocalStorage needs a pool");
  threads_.reserve(std::max(io_threads, 1u));
  try {
    for (uint32_t i = 0; i < std::max(io_threads, 1u); ++i) {
      threads_.emplace_back([this] { work(); });
      pthread_setname_np(threads_.back().native_handle(), ("ol-io-" + std::to_string(i)).c_str());
    }
  } catch (const std::system_error&) {  // fewer will do; none is what status() says
  }
}

Status LocalStorage::status() const {
  return threads_.empty() ? runtime::no_thread("reading files") : Status();
}

LocalStorage::~LocalStorage() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void LocalStorage::read(runtime::ReadRequest request, runtime::CancelToken cancel,
                        runtime::ReadDone done) {
  bool full = false;
  {
    std::lock_guard lock(mutex_);
    full = queue_.size() >= kMaxQueued;
    if (!full) queue_.push_back({std::move(request), std::move(cancel), std::move(done)});
  }
  if (full) {
    done(Status(Code::kResource, "more than " + std::to_string(kMaxQueued) +
                                     " reads are waiting for local storage"));
    return;
  }
  wake_.notify_one();
}

void LocalStorage::work() {
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  while (true) {
    wake_.wait(lock, [this]() OVERLORD_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;  // only when stopping: every request has been answered
    Pending next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    next.done(read_now(next.request, &next.cancel));
    next = Pending();  // captured state dies outside the lock
    lock.lock();
  }
}

Result<Bytes> LocalStorage::read_blocking(const runtime::ReadRequest& request) {
  return read_now(request, nullptr);
}

Result<Bytes> LocalStorage::read_now(const runtime::ReadRequest& request,
                                     const runtime::CancelToken* cancel) {
  const auto withdrawn = [&] { return stopping_ || (cancel != nullptr && cancel->cancelled()); };
  if (withdrawn()) return cancelled(request);
  OVERLORD_TRY(const std::string path, local_path(request.uri));
  OVERLORD_TRY(const std::shared_ptr<FileHandle> handle, handles_.get(path, request.expected));
  if (request.expected != model::Fingerprint{} &&
      (request.offset > request.expected.size_bytes ||
       request.size_bytes > request.expected.size_bytes - request.offset)) {
    return bad_data("read past the end of " + quote(request.uri) + ": " + range_text(request) +
                    ", file has " + std::to_string(request.expected.size_bytes) + " bytes");
  }
  const runtime::Buffer buffer = pool_->acquire(request.size_bytes);
  if (buffer.data == nullptr) {
    return Status(Code::kResource,
                  "no memory to read " + quote(request.uri) + ": " + range_text(request));
  }
  size_t done = 0;
  while (done < request.size_bytes) {
    if (withdrawn()) return cancelled(request);
    const size_t wanted = std::min<size_t>(kSliceBytes, request.size_bytes - done);
    const ssize_t got = ::pread(handle->fd(), buffer.data.get() + done, wanted,
                                static_cast<off_t>(request.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Status(Code::kUnavailable, "cannot read " + quote(request.uri) + " at offset " +
                                            std::to_string(request.offset + done) + ": " +
                                            std::strerror(errno));
    }
    if (got == 0) {
      // Cut short behind the look at it: that is no bad row, which would be left out.
      if (request.expected != model::Fingerprint{}) {
        OVERLORD_RETURN_IF_ERROR(FileHandles::recheck(*handle, path, request.expected));
      }
      return bad_data("file ends early: " + quote(request.uri) + " has no byte at offset " +
                      std::to_string(request.offset + done) + " (" + range_text(request) + ")");
    }
    done += static_cast<size_t>(got);
  }
  if (request.expected != model::Fingerprint{}) {
    OVERLORD_RETURN_IF_ERROR(FileHandles::recheck(*handle, path, request.expected));
  }
  return buffer.view();
}

Result<runtime::FileInfo> LocalStorage::stat(const std::string& uri) {
  OVERLORD_TRY(const std::string path, local_path(uri));
  OVERLORD_TRY(const model::Fingerprint fingerprint, fingerprint_of(path));
  return runtime::FileInfo{uri, fingerprint};
}

Result<std::vector<std::string>> LocalStorage::list(const std::string& pattern) {
  return list_alternatives(
      pattern, [](const std::string& name) -> Result<std::vector<std::string>> {
        OVERLORD_TRY(const std::string path, local_path(name));
        if (!is_glob(path)) {
          OVERLORD_TRY(const model::Fingerprint fingerprint, fingerprint_of(path));
          static_cast<void>(fingerprint);
          return std::vector<std::string>{name};
        }
        OVERLORD_TRY(std::vector<std::string> paths, expand_glob(path));
        for (std::string& match : paths) match = local_uri_like(name, match);
        return paths;
      });
}

Result<std::vector<runtime::ListedFile>> LocalStorage::list_folder(const std::string& uri,
                                                                   uint64_t most) {
  OVERLORD_TRY(const std::string path, local_path(uri));
  OVERLORD_TRY(std::vector<runtime::ListedFile> files, files_below(path, most));
  for (runtime::ListedFile& file : files) file.uri = local_uri_like(uri, file.uri);
  return files;
}

}  // namespace overlord::storage
