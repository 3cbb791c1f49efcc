#include "overlord/node/role_command.h"

namespace overlord::node {

std::vector<std::string> role_command(const KeeperArguments& arguments,
                                      const std::string& job_name) {
  std::vector<std::string> out = {"overlord: {name} of " + job_name, "role", arguments.directory,
                                  "{name}", "{generation}"};
  if (!arguments.share_batches) out.emplace_back("share_batches=0");
  WireOptions wire = arguments.wire;
  if (!wire.several_hosts()) return out;
  const std::string& own = wire.leads ? wire.lead : wire.bind;
  wire.bind = own.substr(0, own.rfind(':')) + ":0";
  for (std::string& word : wire.words()) out.push_back(std::move(word));
  return out;
}

}  // namespace overlord::node
