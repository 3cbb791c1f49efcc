#include "overlord/node/recovery/left_groups.h"

#include "overlord/node/recovery/directory_file.h"
#include "overlord/protocol/fields/field_codec.h"

namespace overlord::node {
namespace {

constexpr const char* kGroupsFile = "groups";

}  // namespace

std::vector<runtime::GroupPlacement> LeftGroups::placements() const {
  std::vector<runtime::GroupPlacement> out;
  for (const LeftGroup& group : groups) out.push_back({group.name, group.generation});
  return out;
}

Status leave_groups(const std::string& directory, const LeftGroups& groups) {
  ByteWriter writer;
  protocol::FieldWriter fields(&writer);
  fields(groups);
  return write_directory_file(directory, kGroupsFile, writer.take());
}

Result<LeftGroups> find_groups(const std::string& directory) {
  Result<std::string> bytes = read_directory_file(directory, kGroupsFile);
  if (bytes.status().code() == Code::kNotFound) return LeftGroups{};
  OVERLORD_RETURN_IF_ERROR(bytes.status());
  ByteReader reader(*bytes);
  protocol::FieldReader fields(&reader);
  LeftGroups out;
  fields(out);
  OVERLORD_RETURN_IF_ERROR(fields.status("groups of a node"));
  return out;
}

void end_groups(const LeftGroups& groups) {
  for (const LeftGroup& group : groups.groups) {
    const runtime::Descriptor handle = handle_of(group.process);
    if (kill_process(handle)) wait_for_end(handle);
  }
}

}  // namespace overlord::node
