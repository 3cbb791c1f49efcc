// Plain Python data out of status values.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "overlord/node/embedded_engine.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::python {

nanobind::dict status_dict(const node::EngineStatus& status);
nanobind::list quarantine_list(const std::vector<loader::QuarantineNote>& notes);
nanobind::dict section_dict(const std::vector<protocol::SectionDigest>& sections);
nanobind::dict state_dict(const protocol::ResumeState& state);

}  // namespace overlord::python
