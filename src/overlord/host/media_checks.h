// What a job must be like for media to travel through it.
#pragma once

#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/media_slab.h"
#include "overlord/roles/loader/role.h"

namespace overlord::host {

// A document with media stays in one piece, and its placeholders are tokens of the vocabulary.
Status check_media(const model::JobSpec& spec);

// Adds the layouts of a source's delivered fields to the job's, which are sorted by name; refuses
// one that is laid out differently under the same name.
Status add_media_layouts(const loader::OpenSource& source,
                         std::vector<model::MediaLayout>* layouts);

}  // namespace overlord::host
