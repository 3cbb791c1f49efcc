#include "hdp_tables.h"

#include <utility>
#include <vector>

#include "hdp_dict.h"
#include "overlord/model/hdp_layer.h"
#include "owned_array.h"

namespace nb = nanobind;

namespace overlord::python {

nb::object hdp_groups(const model::Plan& plan) {
  const model::Layer& layer = plan.layers.front();
  if (layer.hdp == nullptr) return nb::none();
  nb::dict out;
  put_groups(layer.hdp->groups, &out);
  std::vector<uint32_t> substeps;
  for (const model::HdpGroup& group : layer.hdp->groups) substeps.push_back(group.substep);
  out["substeps"] = owned_array(std::move(substeps));
  OwnedTable sequences(6);  // source, pass, position, first, count, targets
  for (const model::Segment& segment : layer.hdp->sequences) {
    sequences.add(segment.id.source, segment.id.pass, segment.id.position, segment.first,
                  segment.count, segment.targets);
  }
  out["table"] = std::move(sequences).array();
  out["rank_microbatches"] = owned_array(layer.bucket_microbatches);
  out["align"] = layer.hdp->align;
  return out;
}

nb::object hdp_share(const model::Microbatch& batch) {
  const model::HdpLayer* layer = batch.core->hdp.get();
  if (layer == nullptr) return nb::none();
  const model::HdpShare& share = layer->shares[batch.core->hdp_bin];
  const model::HdpGroup& group = layer->groups[share.group];
  OwnedTable chunks(5);  // sequence, chunk, first, count, length
  for (uint32_t i = 0; i < share.parts; ++i) {
    const model::HdpPart& part = layer->parts[share.first_part + i];
    chunks.add(part.sequence, part.chunk, part.offset, batch.core->lineage[i].count,
               layer->sequences[part.sequence].count);
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
  out["consumers"] = owned_array(group.ranks);
  out["sequences"] = owned_array(group.sequences);
  out["lengths"] = owned_array(std::move(lengths));
  out["chunks"] = std::move(chunks).array();
  out["tokens"] = group.tokens;
  out["targets"] = group.targets;
  out["offload_permille"] = group.offload_permille;
  out["cost_ns"] = group.cost_ns;
  out["start_ns"] = group.start_ns;
  out["align"] = layer->align;
  return out;
}

}  // namespace overlord::python
