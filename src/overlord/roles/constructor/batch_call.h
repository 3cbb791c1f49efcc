// A microbatch on its way through a user's function: laid out whole, not yet cut for any rank, and
// seen by nobody else. Plain functions: what is asked, and what is made of the answer.
#pragma once

#include <cstdint>
#include <memory>

#include "overlord/base/status.h"
#include "overlord/batch/assemble.h"
#include "overlord/model/media_slab.h"
#include "overlord/model/microbatch.h"
#include "overlord/runtime/batch_transform.h"
#include "overlord/runtime/buffer.h"

namespace overlord::constructor {

struct Draft {
  uint32_t microbatch = 0;
  batch::AssembleSpec spec;
  std::shared_ptr<model::MicrobatchCore> core;
  batch::MutableSlab whole;  // all payload fields, where it is asked about
  model::MediaSlabs media;   // null: it has none
};

// `job_key` stands for the seed; the key of a call follows from it and from the microbatch's place.
runtime::BatchQuestion question_of(const std::shared_ptr<const Draft>& draft, uint32_t group,
                                   uint64_t job_key);

// Writes what the function has replaced; the answer was checked against the question. kResource
// when the pool is exhausted.
Status take_answer(const runtime::BatchAnswer& answer, runtime::BufferPool& pool, Draft* draft);

}  // namespace overlord::constructor
