#include "overlord/node/hosts/decoding.h"

#include "overlord/host/media_checks.h"

namespace overlord::node {

std::vector<plan::DecodeChoice> choose_decoding(const host::OpenJob& job,
                                                const plan::DecodeRoom& room,
                                                const std::map<std::string, uint64_t>& millicores) {
  std::vector<plan::DecodeLoad> loads = host::decode_loads(job);
  for (plan::DecodeLoad& load : loads) {
    const auto measured = millicores.find(load.name);
    if (measured != millicores.end()) load.millicores = measured->second;
  }
  return plan::choose_decoding(loads, room);
}

}  // namespace overlord::node
