#include "overlord/storage/file_handles.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/runtime/quote.h"

namespace overlord::storage {
namespace {

using runtime::quote;

constexpr size_t kSampleBytes = 64 << 10;

Status system_error(const std::string& what, const std::string& path, int error) {
  const std::string message = what + " " + quote(path) + ": " + std::strerror(error);
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return not_found("no such file: " + quote(path));
    case EMFILE:
    case ENFILE:
      return {Code::kResource, message + "; raise `ulimit -n` or lower open_files"};
    case EACCES:
    case EPERM:
      return invalid_argument(message + "; make it readable for this user");
    default:
      return {Code::kResource, message};
  }
}

Status changed(const std::string& path, const std::string& how) {
  return {Code::kSourceChanged, "shard " + quote(path) + " changed while in use: " + how +
                                    "; put the old file back, or run `overlord index` and start a "
                                    "new stream"};
}

int64_t modified_ns(const struct stat& info) {
  return static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

Status check_regular(const std::string& path, const struct stat& info) {
  if (S_ISREG(info.st_mode)) return {};
  if (S_ISDIR(info.st_mode)) {
    return invalid_argument(quote(path) + " is a directory; name its files, for example " +
                            quote(path + "/*.parquet"));
  }
  return invalid_argument(quote(path) + " is not a regular file");
}

Status check_expected(const std::string& path, const struct stat& info,
                      const model::Fingerprint& expected) {
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size != expected.size_bytes) {
    return changed(
        path, std::string(size > expected.size_bytes ? "it grew from " : "it shrank from ") +
                  std::to_string(expected.size_bytes) + " to " + std::to_string(size) + " bytes");
  }
  if (modified_ns(info) != expected.modified_ns) {
    return changed(path, "it was written again (same size, other modification time)");
  }
  return {};
}

Result<uint64_t> sampled_content(int fd, uint64_t size, const std::string& path) {
  std::vector<char> sample(kSampleBytes);
  uint64_t hash = hash64(&size, sizeof size);
  const uint64_t tail =
      size > kSampleBytes ? std::max<uint64_t>(kSampleBytes, size - kSampleBytes) : size;
  for (const auto& [begin, end] :
       {std::pair<uint64_t, uint64_t>{0, std::min<uint64_t>(size, kSampleBytes)},
        std::pair<uint64_t, uint64_t>{tail, size}}) {
    size_t done = 0;
    while (done < end - begin) {
      const ssize_t got =
          ::pread(fd, sample.data() + done, end - begin - done, static_cast<off_t>(begin + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return system_error("cannot read", path, errno);
      if (got == 0) return changed(path, "it shrank while it was read");
      done += static_cast<size_t>(got);
    }
    hash = hash64(sample.data(), done, hash);
  }
  return hash;
}

}  // namespace

FileHandle::~FileHandle() { ::close(fd_); }

Result<model::Fingerprint> fingerprint_of(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error("cannot open", path, errno);
  FileHandle handle(fd, 0, 0);
  struct stat info;
  if (::fstat(fd, &info) != 0) return system_error("cannot stat", path, errno);
  OVERLORD_RETURN_IF_ERROR(check_regular(path, info));
  model::Fingerprint fingerprint;
  fingerprint.size_bytes = static_cast<uint64_t>(info.st_size);
  fingerprint.modified_ns = modified_ns(info);
  OVERLORD_TRY(fingerprint.content, sampled_content(fd, fingerprint.size_bytes, path));
  return fingerprint;
}

Result<std::shared_ptr<FileHandle>> FileHandles::get(const std::string& path,
                                                     const model::Fingerprint& expected) {
  const bool expects = expected != model::Fingerprint{};
  // stat(path), not only fstat: a file replaced by rename leaves the old one behind the descriptor.
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    if (expects && errno == ENOENT) return changed(path, "it was deleted");
    return system_error("cannot stat", path, errno);
  }
  OVERLORD_RETURN_IF_ERROR(check_regular(path, info));
  if (expects) OVERLORD_RETURN_IF_ERROR(check_expected(path, info, expected));
  if (auto handle = cached(path, info.st_dev, info.st_ino)) return handle;

  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
    drop_all();  // descriptors of ours may be what is missing
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  }
  if (fd < 0) return system_error("cannot open", path, errno);
  struct stat opened;
  const bool known = ::fstat(fd, &opened) == 0;
  auto handle =
      std::make_shared<FileHandle>(fd, known ? opened.st_dev : 0, known ? opened.st_ino : 0);
  if (!known) return system_error("cannot stat", path, errno);
  OVERLORD_RETURN_IF_ERROR(check_regular(path, opened));
  if (expects) {
    OVERLORD_RETURN_IF_ERROR(check_expected(path, opened, expected));
    OVERLORD_TRY(const uint64_t content, sampled_content(fd, expected.size_bytes, path));
    if (content != expected.content) {
      return changed(path, "other content (same size and modification time)");
    }
    // Only verified handles are kept: a later caller may expect more than this one did.
    keep(path, handle);
  }
  return handle;
}

Status FileHandles::recheck(const FileHandle& handle, const std::string& path,
                            const model::Fingerprint& expected) {
  struct stat info;
  if (::fstat(handle.fd(), &info) != 0) return system_error("cannot stat", path, errno);
  return check_expected(path, info, expected);
}

std::shared_ptr<FileHandle> FileHandles::cached(const std::string& path, uint64_t device,
                                                uint64_t inode) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(path);
  if (found == entries_.end()) return nullptr;
  if (!found->second.handle->is(device, inode)) {
    order_.erase(found->second.place);
    entries_.erase(found);
    return nullptr;
  }
  order_.splice(order_.begin(), order_, found->second.place);
  return found->second.handle;
}

void FileHandles::keep(const std::string& path, const std::shared_ptr<FileHandle>& handle) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(path);
  if (found != entries_.end()) {
    order_.erase(found->second.place);
    entries_.erase(found);
  }
  order_.push_front(path);
  entries_.emplace(path, Entry{handle, order_.begin()});
  while (entries_.size() > limit_) {
    entries_.erase(order_.back());
    order_.pop_back();
  }
}

void FileHandles::drop_all() {
  std::lock_guard lock(mutex_);
  entries_.clear();
  order_.clear();
}

size_t FileHandles::open_count() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace overlord::storage
