// What a job must be like for media to travel through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/host/open_job.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/media_slab.h"
#include "overlord/roles/constructor/unpacking.h"
#include "overlord/roles/loader/role.h"

namespace overlord::host {

// A document with media stays in one piece, and its placeholders are tokens of the vocabulary.
Status check_media(const model::JobSpec& spec);

// Adds the layouts of a source's delivered fields to the job's, which are sorted by name; refuses
// one that is laid out differently under the same name.
Status add_media_layouts(const loader::OpenSource& source,
                         std::vector<model::MediaLayout>* layouts);

// The job's numbers of a source's delivered media fields.
std::vector<uint32_t> media_numbers(const OpenJob& job, const loader::OpenSource& source);

// The delivered field whose column the strategy's encoder reads: it goes to the ranks that encode
// it. None: no encoder, or one that reads something else.
std::optional<size_t> encoded_field(const OpenJob& job, const loader::OpenSource& source);
bool encodes_media(const OpenJob& job);

// Whether loaders of the source send its blobs as they are stored, for the constructor to decode.
// `far`: constructors may be on other hosts. Never where an encoder with owners of its own
// reads a field of it: the document's constructor has to know of what another one decodes. A field
// with a user's function is left out: it is decoded where the function runs.
bool packs_media(const OpenJob& job, const loader::OpenSource& source, bool far);

// Users' functions over a source's delivered fields, parallel to OpenMedia::fields(); null: none.
std::vector<runtime::MediaFunction*> media_functions(
    const loader::OpenSource& source,
    const std::function<runtime::MediaFunction*(const model::Source&, size_t)>& find);

// What constructors run over packed blobs.
std::shared_ptr<const constructor::MediaChains> media_chains(const OpenJob& job);

}  // namespace overlord::host
