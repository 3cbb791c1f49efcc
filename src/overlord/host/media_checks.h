// What a job must be like for media to travel through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/host/open_job.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/media_slab.h"
#include "overlord/plan/partition/decode_place.h"
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

// What is known of the media of each source, for who chooses where they are decoded. A field with a
// user's function is left out: it is decoded where the function runs.
std::vector<plan::DecodeLoad> decode_loads(const OpenJob& job);
// Writes down what was chosen: nobody asks again.
void set_decoding(std::span<const plan::DecodeChoice> choices, model::JobSpec* spec);
// Whether loaders of the source send its blobs as they are stored, for constructors to decode.
// Where nobody has chosen they do not.
bool packs_media(const loader::OpenSource& source);

// Users' functions over a source's delivered fields, parallel to OpenMedia::fields(); null: none.
std::vector<runtime::MediaFunction*> media_functions(
    const loader::OpenSource& source,
    const std::function<runtime::MediaFunction*(const model::Source&, size_t)>& find);

// What constructors run over packed blobs.
std::shared_ptr<const constructor::MediaChains> media_chains(const OpenJob& job);

}  // namespace overlord::host
