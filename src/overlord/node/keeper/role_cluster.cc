#include "overlord/node/keeper/role_cluster.h"

#include <cstdio>
#include <utility>
#include <vector>

namespace overlord::node {
namespace {

std::vector<std::string> role_command(const KeeperArguments& arguments,
                                      const std::string& job_name) {
  std::vector<std::string> out = {"overlord: {name} of " + job_name, "role", arguments.directory,
                                  "{name}", "{generation}"};
  if (!arguments.share_batches) out.emplace_back("share_batches=0");
  if (arguments.comes_back()) out.push_back("orphan_ms=" + std::to_string(arguments.orphan_ms));
  WireOptions wire = arguments.wire;
  if (!wire.several_hosts()) return out;
  const std::string& own = wire.leads ? wire.own() : wire.bind;
  wire.bind = own.substr(0, own.rfind(':')) + ":0";
  for (std::string& word : wire.words()) out.push_back(std::move(word));
  return out;
}

}  // namespace

Result<std::unique_ptr<ProcessCluster>> start_role_cluster(
    const KeeperArguments& arguments, const std::string& job_name, int job,
    std::function<void(const std::vector<LeftGroup>&)> changed) {
  ProcessClusterOptions options;
  options.executable = arguments.executable;
  options.arguments = role_command(arguments, job_name);
  options.job_descriptor = job;
  options.printed = [](const std::string& name, const std::string& line) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), line.c_str());
  };
  options.changed = std::move(changed);
  return ProcessCluster::start(std::move(options));
}

}  // namespace overlord::node
