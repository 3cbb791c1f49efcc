#include "hdp_tables.h"

#include <vector>

#include "hdp_dict.h"
#include "overlord/model/hdp_layer.h"

namespace nb = nanobind;

namespace overlord::python {

nb::object hdp_groups(const model::Plan& plan) {
  const model::Layer& layer = plan.layers.front();
  if (layer.hdp == nullptr) return nb::none();
  nb::dict out;
  put_groups(layer.hdp->groups, &out);
  std::vector<uint32_t> substeps;
  for (const model::HdpGroup& group : layer.hdp->groups) substeps.push_back(group.substep);
  out["substeps"] = array_of(std::move(substeps));
  std::vector<int64_t> sequences;  // source, pass, position, first, count, targets
  for (const model::Segment& segment : layer.hdp->sequences) {
    sequences.insert(
        sequences.end(),
        {static_cast<int64_t>(segment.id.source), static_cast<int64_t>(segment.id.pass),
         static_cast<int64_t>(segment.id.position), static_cast<int64_t>(segment.first),
         static_cast<int64_t>(segment.count), static_cast<int64_t>(segment.targets)});
  }
  out["table"] = array_of(std::move(sequences), 6);
  out["rank_microbatches"] = array_of(layer.bucket_microbatches);
  out["align"] = layer.hdp->align;
  return out;
}

nb::object hdp_share(const model::Microbatch& batch) {
  const model::HdpLayer* layer = batch.core->hdp.get();
  if (layer == nullptr) return nb::none();
  const model::HdpShare& share = layer->shares[batch.core->hdp_bin];
  const model::HdpGroup& group = layer->groups[share.group];
  std::vector<int64_t> chunks;  // sequence, chunk, first, count, length
  for (uint32_t i = 0; i < share.parts; ++i) {
    const model::HdpPart& part = layer->parts[share.first_part + i];
    chunks.insert(
        chunks.end(),
        {static_cast<int64_t>(part.sequence), static_cast<int64_t>(part.chunk),
         static_cast<int64_t>(part.offset), static_cast<int64_t>(batch.core->lineage[i].count),
         static_cast<int64_t>(layer->sequences[part.sequence].count)});
  }
  std::vector<int64_t> lengths;
  for (const uint32_t sequence : group.sequences) {
    lengths.push_back(layer->sequences[sequence].count);
  }
  nb::dict out;
  out["group"] = share.group;
  out["member"] = share.member;
  out["substep"] = group.substep;
  out["round"] = group.microbatch;
  out["consumers"] = array_of(group.ranks);
  out["sequences"] = array_of(group.sequences);
  out["lengths"] = array_of(std::move(lengths));
  out["chunks"] = array_of(std::move(chunks), 5);
  out["tokens"] = group.tokens;
  out["targets"] = group.targets;
  out["offload_permille"] = group.offload_permille;
  out["cost_ns"] = group.cost_ns;
  out["start_ns"] = group.start_ns;
  out["align"] = layer->align;
  return out;
}

}  // namespace overlord::python
