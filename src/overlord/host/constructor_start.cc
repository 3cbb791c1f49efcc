#include "overlord/host/constructor_start.h"

#include <algorithm>

#include "overlord/base/rng.h"
#include "overlord/host/media_checks.h"
#include "overlord/plan/place/place_tree.h"

namespace overlord::host {
namespace {

constexpr uint64_t kLongestRow = (uint64_t{1} << 31) - 1;

batch::AssembleSpec assemble_spec(const OpenJob& job, uint32_t slices) {
  batch::AssembleSpec spec;
  spec.context = job.spec.context;
  spec.rows = job.delivery.microbatch_size;
  spec.align = job.spec.align;
  spec.pad_token = job.spec.pad_token;
  spec.token_type = job.delivery.token_type;
  spec.weight_type = job.delivery.weight_type;
  spec.slicing = job.delivery.slicing;
  spec.slices = slices;
  for (const model::Source& source : job.spec.sources) {
    spec.specials.push_back({source.bos, source.eod});
  }
  return spec;
}

uint32_t seat_ranks(const planner::Tree& tree, uint32_t bucket, const std::vector<Rank>& ranks,
                    constructor::ConstructorStart* out) {
  uint32_t slices = 1;
  for (const Rank rank : ranks) {
    const model::ClientView& view = tree.views->by_rank[rank];
    if (view.bucket != bucket) continue;
    out->ranks.push_back(rank);
    out->views.push_back(view);
    slices = std::max(slices, view.slices);
  }
  return slices;
}

}  // namespace

constructor::ConstructorStart constructor_start(const OpenJob& job, const planner::Tree& tree,
                                                uint32_t bucket, const std::vector<Rank>& ranks,
                                                StepIndex first_step) {
  constructor::ConstructorStart out;
  out.assemble = assemble_spec(job, seat_ranks(tree, bucket, ranks, &out));
  if (job.spec.strategy.atoms == model::Atoms::kSamples) {
    out.assemble.rows = 1;  // the longest there may be; every plan says how long they are
    out.assemble.context = plan::microbatch_limit(job.spec, job.delivery);
  }
  out.first_step = first_step;
  out.media = job.media;
  out.chains = media_chains(job);
  std::vector<std::string> names;
  for (const model::Source& source : job.spec.sources) names.push_back(source.name);
  out.source_names = std::make_shared<const std::vector<std::string>>(std::move(names));
  for (const model::MediaLayout& layout : job.media) {
    out.job.media_row_bytes.push_back(layout.row_bytes());
  }
  if (job.spec.batch_transform.declared()) {
    out.batch_key = derive_key(job.spec.seed, "batch_transform");
  }
  out.job.bucket = bucket;
  out.job.tree = tree.version;
  out.job.sources = static_cast<uint32_t>(job.sources.size());
  out.job.wants_payload = std::any_of(
      out.views.begin(), out.views.end(),
      [](const model::ClientView& view) { return (view.fields & model::kPayloadFields) != 0; });
  out.job.wants_payload = out.job.wants_payload || encodes_media(job);
  const uint32_t consumers = plan::consumer_count(job.spec.strategy, tree.mesh);
  uint32_t microbatches = (job.spec.most_bins() / consumers + 1) / job.delivery.microbatch_size + 1;
  if (job.spec.strategy.atoms == model::Atoms::kSlices) {
    // Even work is not even tokens: who has the short sequences has more of them.
    const uint64_t tokens =
        2 * uint64_t{job.spec.most_bins()} * job.spec.context / consumers + job.spec.align;
    out.assemble.rows = 1;
    out.assemble.context = static_cast<uint32_t>(std::min<uint64_t>(tokens, kLongestRow));
    microbatches = 1;
  }
  out.job.step_bytes = constructor::microbatch_bytes(out) * microbatches;
  return out;
}

}  // namespace overlord::host
