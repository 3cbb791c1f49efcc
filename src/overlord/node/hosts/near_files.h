// What a host says of the files of a job: which sources it lacks, and which lie on disks of its
// own, so that reading them crosses no network.
#pragma once

#include "overlord/model/job_spec.h"
#include "overlord/protocol/control.h"

namespace overlord::node {

// By `f_type` of statfs. What is not known is taken for a disk.
bool is_network_file_system(uint64_t type);

void note_files(const model::JobSpec& spec, protocol::HostGift* gives);

}  // namespace overlord::node
