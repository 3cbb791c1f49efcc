#include "overlord/transport/unix_listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/base/guarded_by.h"
#include "overlord/runtime/quote.h"

namespace overlord::transport {
namespace {

using runtime::quote;

constexpr int kAcceptsPerTurn = 64;

runtime::Descriptor spare_descriptor() {
  return runtime::Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

// What is at `name` goes, if it is a socket. Nobody listens there: the caller has the lock.
Status remove_leftover(const SocketDirectory& directory, const std::string& name) {
  struct stat info = {};
  if (fstatat(directory.descriptor(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return {};
  const std::string where = quote(directory.path() + "/" + name);
  if (!S_ISSOCK(info.st_mode)) {
    return invalid_argument(where + " is no socket: remove it, or choose another name");
  }
  if (unlinkat(directory.descriptor(), name.c_str(), 0) != 0 && errno != ENOENT) {
    return system_failure("remove the socket " + where, errno);
  }
  return {};
}

Result<runtime::Descriptor> bound_socket(const SocketDirectory& directory,
                                         const ListenOptions& options) {
  const std::string path = directory.address_of(options.socket);
  const std::string where = quote(directory.path() + "/" + options.socket);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return invalid_argument("the socket path " + where + " is too long");
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  runtime::Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return system_failure("make a socket", errno);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return system_failure("bind a socket to " + where, errno);
  }
  if (::listen(socket.get(), options.backlog) != 0) {
    return system_failure("listen at " + where, errno);
  }
  return socket;
}

}  // namespace

struct UnixListener::Tally {
  std::mutex mutex;
  ListenStats stats OVERLORD_GUARDED_BY(mutex);

  void ended(const Status& why) {
    std::lock_guard lock(mutex);
    --stats.open_links;
    if (why.code() != Code::kBadData) return;
    ++stats.garbage_count;
    stats.last_garbage = why.message();
  }
};

UnixListener::UnixListener(std::shared_ptr<EventLoop> loop, runtime::Descriptor directory,
                           runtime::Descriptor socket, ListenOptions options,
                           UnixLink::MakeCallbacks accepted)
    : loop_(std::move(loop)),
      directory_(std::move(directory)),
      options_(std::move(options)),
      tally_(std::make_shared<Tally>()),
      accepted_(std::move(accepted)),
      socket_(std::move(socket)),
      spare_(spare_descriptor()) {
  struct stat info = {};
  if (fstatat(directory_.get(), options_.socket.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    inode_ = info.st_ino;
  }
}

UnixListener::~UnixListener() { remove_name(); }

Result<std::shared_ptr<UnixListener>> UnixListener::listen(const std::shared_ptr<EventLoop>& loop,
                                                           const SocketDirectory& directory,
                                                           const DirectoryLock* lock,
                                                           ListenOptions options,
                                                           UnixLink::MakeCallbacks accepted) {
  OVERLORD_CHECK(lock == nullptr || lock->descriptor() >= 0,
                 "listening without the directory's lock");
  if (options.socket.empty() || options.socket.find('/') != std::string::npos) {
    return invalid_argument("a socket's name has at least one character and no slash, not " +
                            quote(options.socket));
  }
  OVERLORD_RETURN_IF_ERROR(remove_leftover(directory, options.socket));
  OVERLORD_TRY(runtime::Descriptor socket, bound_socket(directory, options));
  runtime::Descriptor own(fcntl(directory.descriptor(), F_DUPFD_CLOEXEC, 3));
  if (!own.valid()) return system_failure("duplicate a descriptor", errno);
  std::shared_ptr<UnixListener> listener(new UnixListener(loop, std::move(own), std::move(socket),
                                                          std::move(options), std::move(accepted)));
  if (!loop->post([listener] { listener->begin(); })) {
    return Status(Code::kCancelled, "the event loop has ended");
  }
  return listener;
}

void UnixListener::begin() {
  if (!socket_.valid()) return;  // closed before it began
  Result<EventLoop::Token> token = loop_->watch(socket_.get(), EPOLLIN, shared_from_this());
  OVERLORD_CHECK(token.ok(), "the listening socket cannot be watched");
  token_ = *token;
}

void UnixListener::ready(uint32_t) {
  for (int i = 0; i < kAcceptsPerTurn && socket_.valid(); ++i) {
    runtime::Descriptor socket(
        accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      accept_link(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE) {
      return shed_one();
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

void UnixListener::accept_link(runtime::Descriptor socket) {
  LinkOptions options = options_.link;
  {
    std::lock_guard lock(tally_->mutex);
    if (tally_->stats.open_links >= options_.max_links) {
      ++tally_->stats.refused_full;
      return;
    }
    options.name += " " + std::to_string(++tally_->stats.accepted_count);
    ++tally_->stats.open_links;
  }
  const auto link =
      UnixLink::adopt(loop_, std::move(socket), std::move(options), [this](UnixLink& made) {
        LinkCallbacks callbacks = accepted_(made);
        callbacks.closed = [tally = tally_, next = std::move(callbacks.closed)](UnixLink& ended,
                                                                                const Status& why) {
          if (next) next(ended, why);
          tally->ended(why);  // a link is open until its owner has let go of what it had
        };
        return callbacks;
      });
  if (link.ok()) return;
  std::lock_guard lock(tally_->mutex);
  --tally_->stats.accepted_count;
  --tally_->stats.open_links;
  ++(link.status().code() == Code::kInvalidArgument ? tally_->stats.refused_users
                                                    : tally_->stats.refused_full);
}

// Out of descriptors: the one kept for this takes the link that waits and drops it. Left waiting,
// it would keep the loop turning, and its owner hoping.
void UnixListener::shed_one() {
  spare_.reset();
  const runtime::Descriptor refused(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  spare_ = spare_descriptor();
  std::lock_guard lock(tally_->mutex);
  tally_->stats.refused_full += refused.valid();
}

// Only the name that is ours: the directory may have a new holder with a socket of its own.
void UnixListener::remove_name() {
  if (loop_->in_forked_child()) return;  // it is our parent's
  std::lock_guard lock(mutex_);
  const ino_t inode = std::exchange(inode_, 0);
  struct stat info = {};
  if (inode != 0 &&
      fstatat(directory_.get(), options_.socket.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      info.st_ino == inode) {
    unlinkat(directory_.get(), options_.socket.c_str(), 0);
  }
}

void UnixListener::close() {
  remove_name();
  loop_->post([self = shared_from_this()] {
    if (self->token_ != 0) self->loop_->unwatch(std::exchange(self->token_, 0));
    self->stopped();
  });
}

void UnixListener::stopped() {
  token_ = 0;
  remove_name();
  socket_.reset();
  accepted_ = nullptr;
}

ListenStats UnixListener::stats() const {
  std::lock_guard lock(tally_->mutex);
  return tally_->stats;
}

}  // namespace overlord::transport
