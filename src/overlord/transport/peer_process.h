// PeerProcess: who is at the other end of a Unix socket, as the kernel says it, and a descriptor
// that tells of that process's death. Free functions over a connected socket.
#pragma once

#include <sys/types.h>

#include <string>

#include "overlord/base/status.h"
#include "overlord/runtime/descriptor.h"

namespace overlord::transport {

struct PeerProcess {
  pid_t pid = 0;  // 0: not visible from here (another pid namespace)
  uid_t uid = 0;
};

Result<PeerProcess> peer_of(int socket);
// kInvalidArgument unless the peer belongs to this process's user.
Status check_same_user(const PeerProcess& peer);
// Readable once the process has died, even where a forked child of it keeps the socket open. Not
// valid when the kernel cannot tell, and for this process itself.
runtime::Descriptor death_of(int socket, const PeerProcess& peer);

}  // namespace overlord::transport
