#include "overlord/protocol/plan_codec.h"

#include <algorithm>

#include "overlord/model/exchange.h"
#include "overlord/model/hdp_layer.h"
#include "overlord/protocol/fields/plan_fields.h"

namespace overlord::protocol {
namespace {

Status other_format(std::string_view what, uint64_t format) {
  return Status(Code::kVersionMismatch,
                std::string(what) + ": format " + std::to_string(format) + ", this build reads " +
                    std::to_string(kPlanCodecFormat) + "; run the same version everywhere");
}

std::string where_of(const model::Plan& plan, const model::Layer& layer) {
  return "plan of step " + std::to_string(plan.step) + ", layer " + layer.module;
}

// What model::PlanIndex relies on: the bins' ends, one seat for each bin, rows that all have one
// where bins have lengths of their own.
bool fits_seats(const model::Layer& layer) {
  const uint64_t rows = uint64_t{layer.microbatches} * layer.microbatch_size;
  if (rows > kMaxSeats || layer.buckets == 0 || rows * layer.buckets > kMaxSeats) return false;
  std::vector<bool> taken(rows * layer.buckets);
  std::vector<uint32_t> rows_taken(layer.buckets);
  for (const model::Placement& place : layer.placements) {
    if (place.bucket >= layer.buckets || place.microbatch >= layer.microbatches ||
        place.slot >= layer.microbatch_size) {
      return false;
    }
    const uint64_t seat =
        place.bucket * rows + uint64_t{place.microbatch} * layer.microbatch_size + place.slot;
    if (taken[seat]) return false;
    taken[seat] = true;
    ++rows_taken[place.bucket];
  }
  if (layer.capacities.empty()) return true;
  for (uint32_t b = 0; b < layer.buckets; ++b) {
    const uint64_t own = uint64_t{layer.microbatches_of(b)} * layer.microbatch_size;
    if (rows_taken[b] != 0 && rows_taken[b] != own) return false;
  }
  return true;
}

bool fits_counts(const model::Layer& layer) {
  if (layer.bucket_microbatches.empty()) return true;
  return layer.bucket_microbatches.size() == layer.buckets &&
         *std::max_element(layer.bucket_microbatches.begin(), layer.bucket_microbatches.end()) <=
             layer.microbatches;
}

// What a rank looks up of its slices, and what a constructor does in a layer that was cut down.
bool fits_slices(const model::Layer& layer) {
  if (!layer.hdp) return true;
  const model::HdpLayer& hdp = *layer.hdp;
  if (!hdp.bins.empty()) {
    return hdp.sequences.empty() && hdp.groups.empty() && hdp.shares.empty() &&
           hdp.bins.size() == layer.placements.size() && hdp.parts.size() == layer.segments.size();
  }
  for (const model::HdpGroup& group : hdp.groups) {
    for (const uint32_t rank : group.ranks) {
      if (rank >= layer.buckets) return false;
    }
    for (const uint32_t sequence : group.sequences) {
      if (sequence >= hdp.sequences.size()) return false;
    }
  }
  for (const model::HdpPart& part : hdp.parts) {
    if (part.sequence >= hdp.sequences.size()) return false;
  }
  for (const model::HdpShare& share : hdp.shares) {
    if (share.group >= hdp.groups.size() || share.member >= hdp.groups[share.group].ranks.size() ||
        share.parts > hdp.parts.size() || share.first_part > hdp.parts.size() - share.parts) {
      return false;
    }
  }
  return layer.placements.empty() || hdp.shares.size() == layer.placements.size();
}

bool below(const std::vector<uint32_t>& values, size_t limit) {
  return std::all_of(values.begin(), values.end(), [&](uint32_t value) { return value < limit; });
}

// What model::encoder_parts relies on.
bool fits_encoder(const model::Layer& layer, const model::Layer& backbone) {
  if (!layer.encoder) return true;
  const model::EncoderPlan& encoder = *layer.encoder;
  const size_t bins = layer.placements.size();
  if (encoder.backbone_of.size() != bins || encoder.backbone_segment.size() != bins) return false;
  if (!below(encoder.backbone_of, backbone.buckets)) return false;
  // Those of other buckets stand for nothing where the backbone was cut down.
  if (!below(encoder.backbone_segment, std::max<size_t>(1, backbone.segments.size()))) return false;
  if (encoder.exchanges.size() != layer.microbatches) return false;
  for (const model::Dummy& dummy : encoder.dummies) {
    if (dummy.encoder >= layer.buckets || dummy.microbatch >= layer.microbatches) return false;
  }
  for (const model::Exchange& exchange : encoder.exchanges) {
    const size_t rows = exchange.sent.size();
    if (exchange.received.size() != rows || exchange.permutation.size() != rows ||
        exchange.inverse.size() != rows || !below(exchange.sent, bins) ||
        !below(exchange.received, bins) || !below(exchange.permutation, rows) ||
        !below(exchange.inverse, rows)) {
      return false;
    }
    for (const model::PairBytes& pair : exchange.pairs) {
      if (pair.encoder >= layer.buckets || pair.backbone >= backbone.buckets) return false;
    }
  }
  return true;
}

bool fits_bins(const model::Layer& layer) {
  const size_t bins = layer.placements.size();
  if (layer.bin_ends.size() != bins) return false;
  if (!layer.capacities.empty() && layer.capacities.size() != bins) return false;
  if (!std::is_sorted(layer.bin_ends.begin(), layer.bin_ends.end())) return false;
  return layer.segments.size() == (bins == 0 ? 0 : layer.bin_ends.back());
}

// No branch in the loop: it walks every segment of the step.
bool fits_sources(const model::Layer& layer, uint32_t sources) {
  SourceIndex highest = 0;
  bool fits = true;
  for (const model::Segment& segment : layer.segments) {
    highest = std::max(highest, segment.id.source);
    fits &= segment.first <= ~segment.count;
  }
  return fits && (layer.segments.empty() || highest < sources);
}

Status check_layer(const model::Plan& plan, const model::Layer& layer, uint32_t sources) {
  if (layer.buckets > layer.views->by_rank.size()) {
    return bad_data(where_of(plan, layer) +
                    ": more buckets than ranks: " + std::to_string(layer.buckets));
  }
  if (!fits_counts(layer)) {
    return bad_data(where_of(plan, layer) + ": microbatches of buckets that do not fit");
  }
  if (!fits_slices(layer)) return bad_data(where_of(plan, layer) + ": slices that do not fit");
  if (!fits_encoder(layer, plan.layers.front())) {
    return bad_data(where_of(plan, layer) + ": an exchange that does not fit");
  }
  if (!fits_bins(layer)) return bad_data(where_of(plan, layer) + ": bins that do not fit");
  if (!fits_seats(layer)) return bad_data(where_of(plan, layer) + ": placements that do not fit");
  if (!fits_sources(layer, sources)) {
    return bad_data(where_of(plan, layer) + ": a segment outside the job's " +
                    std::to_string(sources) + " sources or of impossible length");
  }
  return {};
}

// The known table in the place of its name.
Status bind_views(const PlanContext& context, model::Layer* layer) {
  if (!layer->views) return bad_data("plan: a layer without views");
  for (const auto& known : context.views) {
    if (known->digest == layer->views->digest &&
        known->tree_version == layer->views->tree_version) {
      layer->views = known;
      return {};
    }
    const model::EncoderTable* table = known->encoder.get();
    if (table != nullptr && layer->encoder && table->views->digest == layer->views->digest) {
      layer->views = table->views;
      auto encoder = std::make_shared<model::EncoderPlan>(*layer->encoder);
      encoder->table = known->encoder;
      layer->encoder = std::move(encoder);
      return {};
    }
  }
  return Status(Code::kVersionMismatch, "a table of views that is not known here: tree version " +
                                            std::to_string(layer->views->tree_version) +
                                            ", digest " + layer->views->digest.hex());
}

bool shares_consumers(const model::Layer& layer, const model::Layer& first) {
  return layer.axis == first.axis && layer.buckets == first.buckets;
}

// All of a layer but what is kept by bin. Named field by field, because copying the segments of a
// whole step for every receiver is what cutting is there to avoid; the compiler counts them.
model::Layer without_bins(const model::Layer& layer) {
  const auto& [module, axis, buckets, microbatches, microbatch_size, bin_capacity, segments,
               bin_ends, placements, capacities, views, report, further_reports, encoder, hdp,
               bucket_microbatches] = layer;
  return {
      module, axis, buckets, microbatches, microbatch_size, bin_capacity, {},  {},
      {},     {},   views,   report,       further_reports, encoder,      hdp, bucket_microbatches};
}

// The slices of the bins that are left.
std::shared_ptr<const model::HdpLayer> cut_slices(const model::Layer& layer,
                                                  const std::vector<uint32_t>& bins) {
  if (!layer.hdp) return nullptr;
  auto cut = std::make_shared<model::HdpLayer>();
  cut->align = layer.hdp->align;
  cut->substeps = layer.hdp->substeps;
  cut->bins = bins;
  for (const uint32_t bin : bins) {
    const auto parts = layer.hdp->parts.begin();
    cut->parts.insert(cut->parts.end(), parts + layer.bin_begin(bin), parts + layer.bin_ends[bin]);
  }
  return cut;
}

std::vector<uint32_t> bins_of(const model::Layer& layer, uint32_t bucket) {
  std::vector<uint32_t> bins;
  for (uint32_t bin = 0; bin < layer.placements.size(); ++bin) {
    if (layer.placements[bin].bucket == bucket) bins.push_back(bin);
  }
  return bins;
}

model::Layer cut_layer(const model::Layer& layer, const std::vector<uint32_t>& bins) {
  model::Layer cut = without_bins(layer);
  cut.report = nullptr;
  cut.further_reports.clear();
  cut.hdp = cut_slices(layer, bins);
  for (const uint32_t bin : bins) {
    cut.placements.push_back(layer.placements[bin]);
    cut.segments.insert(cut.segments.end(), layer.segments.begin() + layer.bin_begin(bin),
                        layer.segments.begin() + layer.bin_ends[bin]);
    cut.bin_ends.push_back(static_cast<uint32_t>(cut.segments.size()));
    if (!layer.capacities.empty()) cut.capacities.push_back(layer.capacities[bin]);
  }
  return cut;
}

// Its documents as they are counted among the segments of these bins of the backbone.
void count_anew(const model::Layer& backbone, const std::vector<uint32_t>& bins, uint32_t bucket,
                model::Layer* layer) {
  std::vector<uint32_t> numbers(backbone.segments.size());
  uint32_t next = 0;
  for (const uint32_t bin : bins) {
    for (uint32_t s = backbone.bin_begin(bin); s < backbone.bin_ends[bin]; ++s) numbers[s] = next++;
  }
  auto encoder = std::make_shared<model::EncoderPlan>(*layer->encoder);
  for (size_t bin = 0; bin < encoder->backbone_of.size(); ++bin) {
    uint32_t& segment = encoder->backbone_segment[bin];
    segment = encoder->backbone_of[bin] == bucket ? numbers[segment] : 0;
  }
  layer->encoder = std::move(encoder);
}

model::Plan without_layers(const model::Plan& plan) {
  const auto& [versions, step, layers, tokens, target_tokens, capacity, asked, served, max_delay,
               delays, owners, last, content_hash, plan_hash, state_after] = plan;
  return {versions,  step,   {},     tokens, target_tokens, capacity,  asked,      served,
          max_delay, delays, owners, last,   content_hash,  plan_hash, state_after};
}

}  // namespace

std::string encode_views(const model::ViewTable& views) {
  ByteWriter writer;
  writer.varint(kPlanCodecFormat);
  FieldWriter fields(&writer);
  fields(views);
  return writer.take();
}

Result<std::shared_ptr<const model::ViewTable>> decode_views(std::string_view bytes) {
  ByteReader reader(bytes);
  if (const uint64_t format = reader.varint(); format != kPlanCodecFormat && !reader.failed()) {
    return other_format("views", format);
  }
  FieldReader fields(&reader);
  auto views = std::make_shared<model::ViewTable>();
  fields(*views);
  OVERLORD_RETURN_IF_ERROR(fields.status("views"));
  const size_t ranks = views->by_rank.size();
  for (const model::ClientView& view : views->by_rank) {
    if ((view.present() && view.bucket >= ranks) || view.slice >= view.slices ||
        view.fields > model::kAllFields) {
      return bad_data("views: a rank whose view makes no sense");
    }
  }
  return std::shared_ptr<const model::ViewTable>(std::move(views));
}

std::string encode_plan(const model::Plan& plan) {
  ByteWriter writer;
  writer.varint(kPlanCodecFormat);
  FieldWriter fields(&writer);
  fields(plan);
  return writer.take();
}

model::Plan plan_for_clients(const model::Plan& plan) {
  model::Plan out = without_layers(plan);
  for (const model::Layer& layer : plan.layers) {
    // Nobody that is told of no bin needs to know who encodes: its part comes with its batch.
    if (!shares_consumers(layer, plan.layers.front()) || layer.encoder) continue;
    out.layers.push_back(without_bins(layer));
  }
  return out;
}

model::Plan plan_for_bucket(const model::Plan& plan, uint32_t bucket) {
  model::Plan out = without_layers(plan);
  out.asked.clear();
  out.served.clear();
  out.delays.clear();
  out.owners.clear();
  out.state_after = nullptr;
  const model::Layer& backbone = plan.layers.front();
  const std::vector<uint32_t> bins = bins_of(backbone, bucket);
  for (const model::Layer& layer : plan.layers) {
    if (&layer == &backbone) {
      out.layers.push_back(cut_layer(layer, bins));
    } else if (layer.encoder || !shares_consumers(layer, backbone)) {
      out.layers.push_back(layer);
      if (layer.encoder) count_anew(backbone, bins, bucket, &out.layers.back());
    } else {
      out.layers.push_back(cut_layer(layer, bins_of(layer, bucket)));
    }
  }
  return out;
}

Result<model::PlanPtr> decode_plan(std::string_view bytes, const PlanContext& context) {
  ByteReader reader(bytes);
  if (const uint64_t format = reader.varint(); format != kPlanCodecFormat && !reader.failed()) {
    return other_format("plan", format);
  }
  FieldReader fields(&reader);
  auto plan = std::make_shared<model::Plan>();
  fields(*plan);
  OVERLORD_RETURN_IF_ERROR(fields.status("plan"));
  if (plan->layers.empty()) return bad_data("plan: it has no layer");
  for (model::Layer& layer : plan->layers) {
    OVERLORD_RETURN_IF_ERROR(bind_views(context, &layer));
    OVERLORD_RETURN_IF_ERROR(check_layer(*plan, layer, context.sources));
  }
  if (plan->state_after && plan->state_after->cursors.size() != context.sources) {
    return bad_data("plan of step " + std::to_string(plan->step) + ": state of " +
                    std::to_string(plan->state_after->cursors.size()) + " sources, the job has " +
                    std::to_string(context.sources));
  }
  return model::PlanPtr(std::move(plan));
}

}  // namespace overlord::protocol
