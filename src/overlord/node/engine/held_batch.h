// Batches as a trainer holds them: counted, and copied when it holds more than its share of the
// pool (law 14).
#pragma once

#include <cstdint>
#include <memory>

#include "overlord/model/microbatch.h"

namespace overlord::node {

// Memory behind the views of a batch: tokens and what goes with them, and media.
uint64_t payload_bytes(const model::Microbatch& batch);

// The same views. `counted` lives as long as any of them is held.
model::MicrobatchPtr counted_batch(const model::Microbatch& batch,
                                   const std::shared_ptr<const void>& counted);

// The same batch in memory of its own, so that the shared one can go back.
model::MicrobatchPtr private_batch(const model::Microbatch& batch,
                                   const std::shared_ptr<const void>& counted);

}  // namespace overlord::node
