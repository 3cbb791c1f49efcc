#include "overlord/transport/socket_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "overlord/runtime/quote.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/event_loop.h"

namespace overlord::transport {
namespace {

using runtime::quote;

constexpr const char* kLockName = "lock";
constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int kAttempts = 64;       // each lost to another process that came or went meanwhile
constexpr int kLockPollMs = 5;      // the kernel can wake a waiter, but not at a deadline
constexpr size_t kDigestPart = 16;  // hex digits: enough to tell a user's jobs apart

std::string name_prefix() { return "overlord-" + std::to_string(geteuid()) + "-"; }

bool ours_alone(const struct stat& info) {
  return S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0;
}

std::string base_or_default(const std::string& base) {
  if (!base.empty()) return base;
  const char* given = std::getenv("XDG_RUNTIME_DIR");
  struct stat info = {};
  if (given != nullptr && given[0] == '/' && stat(given, &info) == 0 && ours_alone(info)) {
    return given;
  }
  return "/tmp";
}

Status check_directory(int directory, const std::string& path) {
  struct stat info = {};
  if (fstat(directory, &info) != 0) return system_failure("look at " + quote(path), errno);
  if (info.st_uid != geteuid()) {
    return invalid_argument("the socket directory " + quote(path) + " belongs to user " +
                            std::to_string(info.st_uid) + ", not to " + std::to_string(geteuid()) +
                            ": choose another, or have it removed");
  }
  if ((info.st_mode & 0777) != 0700) {
    constexpr const char* kDigits = "01234567";
    std::string mode;
    for (const int shift : {6, 3, 0}) mode += kDigits[(info.st_mode >> shift) & 7];
    return invalid_argument("the socket directory " + quote(path) + " has mode 0" + mode +
                            ", which must be 0700: run chmod 700 on it, or remove it");
  }
  return {};
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// The names in a directory, without "." and "..".
std::vector<std::string> names_in(int directory) {
  std::vector<std::string> names;
  // A descriptor of its own: reading moves the offset of the open directory.
  const int own = openat(directory, ".", kOpenDirectory);
  if (own < 0) return names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(own), closedir);
  if (!stream) {
    close(own);
    return names;
  }
  while (const dirent* entry = readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

// A file, or a folder with all that is in it; no link is followed. False: errno says why.
bool remove_at(int directory, const std::string& name) {
  if (unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) return true;
  if (errno != EISDIR) return false;
  const runtime::Descriptor folder(openat(directory, name.c_str(), kOpenDirectory));
  if (!folder.valid()) return errno == ENOENT;
  for (const std::string& inner : names_in(folder.get())) {
    if (!remove_at(folder.get(), inner)) return false;
  }
  return unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT;
}

void write_holder(int file) {
  const std::string text = std::to_string(getpid()) + "\n";
  if (ftruncate(file, 0) != 0) return;  // only a message would be poorer
  [[maybe_unused]] const ssize_t written = pwrite(file, text.data(), text.size(), 0);
}

}  // namespace

Result<SocketDirectory> SocketDirectory::open(const std::string& path, bool may_make) {
  if (may_make && mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return system_failure("make the socket directory " + quote(path), errno);
  }
  runtime::Descriptor directory(::open(path.c_str(), kOpenDirectory));
  if (!directory.valid()) {
    if (errno == ENOENT) return not_found("there is no socket directory " + quote(path));
    if (errno == ELOOP || errno == ENOTDIR) {
      return invalid_argument("the socket directory " + quote(path) +
                              " is a link or no directory: remove it, or choose another");
    }
    return system_failure("open the socket directory " + quote(path), errno);
  }
  OVERLORD_RETURN_IF_ERROR(check_directory(directory.get(), path));
  return SocketDirectory(path, std::move(directory), may_make);
}

Result<SocketDirectory> SocketDirectory::for_job(const Digest& job, const std::string& base) {
  return make(base_or_default(base) + "/" + name_prefix() + job.hex().substr(0, kDigestPart));
}

Result<SocketDirectory> SocketDirectory::make(const std::string& path) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto opened = open(path, true);
    // Another process may remove the directory between our making and opening it.
    if (opened.ok() || opened.status().code() != Code::kNotFound) return opened;
  }
  return Status(Code::kUnavailable, "the socket directory " + quote(path) + " keeps vanishing");
}

Result<SocketDirectory> SocketDirectory::find(const std::string& path) { return open(path, false); }

std::string SocketDirectory::address_of(const std::string& name) const {
  const std::string through = "/proc/self/fd/" + std::to_string(directory_.get());
  // Without /proc the plain path must do.
  return (access(through.c_str(), F_OK) == 0 ? through : path_) + "/" + name;
}

bool SocketDirectory::still_there() const {
  struct stat held = {}, named = {};
  return fstat(directory_.get(), &held) == 0 && lstat(path_.c_str(), &named) == 0 &&
         same_file(held, named);
}

Status SocketDirectory::reopen() {
  OVERLORD_TRY(SocketDirectory again, may_make_ ? make(path_) : find(path_));
  *this = std::move(again);
  return {};
}

Result<std::optional<DirectoryLock>> SocketDirectory::try_lock() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    runtime::Descriptor file(
        openat(directory_.get(), kLockName, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.valid() && errno == ENOENT) {  // the directory was removed: nothing can be made in it
      OVERLORD_RETURN_IF_ERROR(reopen());
      continue;
    }
    if (!file.valid()) return system_failure("open the lock in " + quote(path_), errno);
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) return std::optional<DirectoryLock>();
      return system_failure("lock " + quote(path_), errno);
    }
    // The holder before us may have removed the file that we have just locked.
    struct stat held = {}, named = {};
    const bool current = fstat(file.get(), &held) == 0 &&
                         fstatat(directory_.get(), kLockName, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                         same_file(held, named);
    if (!current) continue;
    if (!still_there()) {
      OVERLORD_RETURN_IF_ERROR(reopen());
      continue;
    }
    write_holder(file.get());
    return std::optional<DirectoryLock>(DirectoryLock(std::move(file)));
  }
  return Status(Code::kUnavailable, "the lock in " + quote(path_) + " keeps vanishing");
}

Result<DirectoryLock> SocketDirectory::lock(int64_t deadline_ns) {
  while (true) {
    OVERLORD_TRY(std::optional<DirectoryLock> locked, try_lock());
    if (locked) return std::move(*locked);
    if (runtime::steady_now_ns() >= deadline_ns) {
      return Status(Code::kDeadline, "the lock in " + quote(path_) + " is held by process " +
                                         std::to_string(holder_pid()));
    }
    poll(nullptr, 0, kLockPollMs);
  }
}

int64_t SocketDirectory::holder_pid() const {
  const runtime::Descriptor file(
      openat(directory_.get(), kLockName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  char text[24] = {};
  if (!file.valid() || pread(file.get(), text, sizeof(text) - 1, 0) <= 0) return 0;
  return std::strtoll(text, nullptr, 10);
}

Result<size_t> SocketDirectory::clear(const DirectoryLock& lock) {
  OVERLORD_CHECK(lock.descriptor() >= 0, "clearing a socket directory without its lock");
  size_t removed = 0;
  for (const std::string& name : names_in(directory_.get())) {
    if (name == kLockName) continue;
    if (!remove_at(directory_.get(), name)) {
      return system_failure("remove " + quote(path_ + "/" + name), errno);
    }
    ++removed;
  }
  return removed;
}

Status SocketDirectory::remove(DirectoryLock lock) {
  OVERLORD_TRY([[maybe_unused]] const size_t removed, clear(lock));
  if (!still_there()) return {};
  unlinkat(directory_.get(), kLockName, 0);
  // Another process may have made a new lock file in this moment: then the directory is its own.
  if (rmdir(path_.c_str()) != 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST) {
    return system_failure("remove the socket directory " + quote(path_), errno);
  }
  return {};
}

}  // namespace overlord::transport
