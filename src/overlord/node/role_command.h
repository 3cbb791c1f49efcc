// The words with which a node starts its role processes.
#pragma once

#include <string>
#include <vector>

#include "overlord/node/keeper.h"

namespace overlord::node {

// {name} and {generation} stand for those of each process.
std::vector<std::string> role_command(const KeeperArguments& arguments,
                                      const std::string& job_name);

}  // namespace overlord::node
