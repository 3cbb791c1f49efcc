// Who decodes the media of an open job: what its indexes know is weighed (host), and chosen by
// (plan).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "overlord/host/open_job.h"
#include "overlord/plan/partition/decode_place.h"

namespace overlord::node {

// `millicores`: of decoding in the run before, by source, where the job does not say it itself.
std::vector<plan::DecodeChoice> choose_decoding(
    const host::OpenJob& job, const plan::DecodeRoom& room,
    const std::map<std::string, uint64_t>& millicores = {});

}  // namespace overlord::node
