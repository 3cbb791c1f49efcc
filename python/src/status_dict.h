// Plain Python data out of quarantine notes and states; statuses are dict_of (fields_dict.h).
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "overlord/node/engine/engine.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::python {

nanobind::list quarantine_list(const std::vector<loader::QuarantineNote>& notes);
nanobind::dict section_dict(const std::vector<protocol::SectionDigest>& sections);
nanobind::dict state_dict(const protocol::ResumeState& state);

}  // namespace overlord::python
