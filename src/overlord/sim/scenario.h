// Scenario: a small job over generated sources in memory, with the knobs that tests turn. Every
// delivered token can be computed again from its lineage. Test only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "overlord/host/open_job.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/mesh.h"
#include "overlord/runtime/in_memory/memory_storage.h"
#include "overlord/sim/cluster.h"
#include "overlord/testing/corpus.h"

namespace overlord::sim {

struct Scenario {
  model::JobSpec spec;
  model::DeliverySpec delivery;
  std::vector<model::Axis> axes = {{"pp", 1}, {"dp", 2}, {"cp", 1}, {"tp", 1}};
  model::RuntimeOptions options;
  std::vector<testing::CorpusSpec> corpora;  // parallel to spec.sources
  std::shared_ptr<runtime::MemoryStorage> objects;

  // Three sources: Megatron (lengths in the index), JSONL tokens and JSONL text (decoded first).
  static Scenario small(uint64_t seed = 7);

  std::shared_ptr<const host::OpenJob> open() const;
  std::vector<Rank> all_ranks() const;
  // A cluster of all ranks from the start, or from `state`.
  std::unique_ptr<SimCluster> start(uint64_t seed) const;
  std::unique_ptr<SimCluster> resume(const protocol::ResumeState& state, uint64_t seed,
                                     std::vector<Rank> ranks = {}) const;

  // The document's tokens as the trainer should see them, with bos and eod.
  std::vector<int64_t> document(SourceIndex source, uint64_t row) const;
};

}  // namespace overlord::sim
