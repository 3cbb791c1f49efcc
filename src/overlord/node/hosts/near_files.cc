#include "overlord/node/hosts/near_files.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <string>

namespace overlord::node {
namespace {

constexpr size_t kMostAsked = 16;  // files of a source, spread evenly: its shards lie together

// NFS, SMB (three of them), 9p, Ceph, AFS (two), Coda, NCP, Lustre, GPFS, BeeGFS, FUSE, OCFS2,
// GFS2. Whatever is behind FUSE is mostly far away.
constexpr std::array<uint64_t, 16> kNetworks = {
    0x6969,     0x517b, 0xff534d42, 0xfe534d42, 0x01021997, 0x00c36400, 0x5346414f, 0x6b414653,
    0x73757245, 0x564c, 0x0bd00bd0, 0x47504653, 0x19830326, 0x65735546, 0x7461636f, 0x01161970};

bool lies_near(const std::string& uri) {
  struct statfs system;
  if (uri.find("://") != std::string::npos || statfs(uri.c_str(), &system) != 0) return false;
  return !is_network_file_system(static_cast<uint32_t>(system.f_type));
}

bool holds(const model::Source& source) {
  const size_t step = std::max<size_t>(1, source.files.size() / kMostAsked);
  for (size_t i = 0; i < source.files.size(); i += step) {
    if (!lies_near(source.files[i])) return false;
  }
  return !source.files.empty();
}

}  // namespace

bool is_network_file_system(uint64_t type) {
  return std::find(kNetworks.begin(), kNetworks.end(), type) != kNetworks.end();
}

void note_files(const model::JobSpec& spec, protocol::HostGift* gives) {
  for (const model::Source& source : spec.sources) {
    if (!source.files_here) {
      gives->lacks.push_back(source.name);
    } else if (holds(source)) {
      gives->holds.push_back(source.name);
    }
  }
}

}  // namespace overlord::node
