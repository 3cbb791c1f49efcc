// SocketDirectory: the directory in which the processes of one job on one host find each other.
// Mode 0700, owned by this user, reached without following a link; everything in it is addressed
// through its descriptor, so that nobody can put another directory in its place. A locked file in
// it elects who may listen: the lock ends with its holder, however that dies, and the next holder
// removes what was left behind. One process may use it from many threads.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "overlord/base/hash.h"
#include "overlord/base/status.h"
#include "overlord/runtime/descriptor.h"

namespace overlord::transport {

// Held by one process at a time; ends with this object or with the last process that has its
// descriptor. A process that is started to take over inherits descriptor().
class DirectoryLock {
 public:
  int descriptor() const { return file_.get(); }
  // The lock that another process took and handed over with its descriptor.
  static DirectoryLock inherited(int descriptor) {
    return DirectoryLock(runtime::Descriptor(descriptor));
  }

 private:
  friend class SocketDirectory;
  explicit DirectoryLock(runtime::Descriptor file) : file_(std::move(file)) {}
  runtime::Descriptor file_;
};

class SocketDirectory {
 public:
  // Under $XDG_RUNTIME_DIR where that is a directory of ours alone, else /tmp; or under `base`.
  static Result<SocketDirectory> for_job(const Digest& job, const std::string& base = "");
  // Makes `path` when it is not there; its parent must be. kInvalidArgument when what is there is
  // a link, not a directory, somebody else's, or open to others.
  static Result<SocketDirectory> make(const std::string& path);
  static Result<SocketDirectory> find(const std::string& path);  // kNotFound when it is not there

  const std::string& path() const { return path_; }
  int descriptor() const { return directory_.get(); }
  // What bind() and connect() take for `name` in here; fits them however long path() is.
  std::string address_of(const std::string& name) const;

  // Nothing when another process (or another lock of this one) holds it. Makes the directory again
  // when it was removed meanwhile, unless it came from find().
  Result<std::optional<DirectoryLock>> try_lock();
  // Waits for the holder to end, at most until `deadline_ns` of the steady clock: kDeadline.
  Result<DirectoryLock> lock(int64_t deadline_ns);
  // The process that wrote itself into the lock file; 0 when unknown. For messages only.
  int64_t holder_pid() const;

  // Removes sockets, files and folders that dead processes left, and says how many.
  Result<size_t> clear(const DirectoryLock& lock);
  // clear(), then the lock file and the directory itself. The lock ends.
  Status remove(DirectoryLock lock);

 private:
  SocketDirectory(std::string path, runtime::Descriptor directory, bool may_make)
      : path_(std::move(path)), directory_(std::move(directory)), may_make_(may_make) {}
  static Result<SocketDirectory> open(const std::string& path, bool may_make);
  bool still_there() const;
  Status reopen();

  std::string path_;
  runtime::Descriptor directory_;
  bool may_make_;
};

}  // namespace overlord::transport
