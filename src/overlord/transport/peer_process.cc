#include "overlord/transport/peer_process.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

// What libraries older than the kernels we run on do not name.
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace overlord::transport {

Result<PeerProcess> peer_of(int socket) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return Status(Code::kUnavailable, "cannot tell who is at the other end of a socket: " +
                                          std::generic_category().message(errno));
  }
  return PeerProcess{credentials.pid, credentials.uid};
}

Status check_same_user(const PeerProcess& peer) {
  if (peer.uid == geteuid()) return {};
  return invalid_argument("process " + std::to_string(peer.pid) + " belongs to user " +
                          std::to_string(peer.uid) + ", not to " + std::to_string(geteuid()));
}

runtime::Descriptor death_of(int socket, const PeerProcess& peer) {
  if (peer.pid <= 0 || peer.pid == getpid()) return runtime::Descriptor();
  int descriptor = -1;
  socklen_t size = sizeof(descriptor);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &descriptor, &size) == 0) {
    return runtime::Descriptor(descriptor);
  }
#ifdef SYS_pidfd_open
  // Before Linux 6.5 by number: a process that died since it connected may have lent its number to
  // another one, whose death then tells nothing; the closed socket still does.
  return runtime::Descriptor(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
#else
  return runtime::Descriptor();
#endif
}

}  // namespace overlord::transport
