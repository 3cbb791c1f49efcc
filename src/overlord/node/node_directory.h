// Where the node of a job on this host is found, for those who may look no deeper than this room.
#pragma once

#include "overlord/transport/socket_directory.h"

namespace overlord::node {

using DirectoryLock = transport::DirectoryLock;
using NodeDirectory = transport::SocketDirectory;

}  // namespace overlord::node
