#include "overlord/plan/place/place_tree.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string>

#include "overlord/base/bytes.h"
#include "overlord/base/check.h"
#include "overlord/model/exchange.h"
#include "overlord/plan/cost/cost.h"
#include "overlord/plan/place/callout.h"
#include "overlord/plan/place/encoder_layer.h"
#include "overlord/plan/place/hdp_placement.h"

namespace overlord::plan {
namespace {

using model::DeliverySpec;
using model::JobSpec;
using model::Mesh;
using model::Share;
using model::Slicing;

uint32_t bucket_of(const Mesh& mesh, Rank rank) {
  uint32_t bucket = 0;
  for (const model::Axis& axis : mesh.axes()) {
    if (is_data_axis(axis.name)) bucket = bucket * axis.size + mesh.coordinate(rank, axis.name);
  }
  return bucket;
}

// Pipeline stages get what they use: the first embeds, the last computes the loss, the others only
// need to know where documents end.
uint8_t stage_fields(const Mesh& mesh, Rank rank, bool all_stages) {
  const uint32_t stages = mesh.size("pp");
  const uint32_t stage = mesh.coordinate(rank, "pp");
  if (all_stages || stages == 1) return model::kAllFields;
  uint8_t fields = model::kFieldBoundaries;
  if (stage == 0) fields |= model::kFieldTokens | model::kFieldPositions;
  if (stage == stages - 1) fields |= model::kFieldTargets | model::kFieldLossWeights;
  return fields;
}

bool broadcast_to(const DeliverySpec& delivery, std::string_view axis) {
  return std::find(delivery.broadcast_axes.begin(), delivery.broadcast_axes.end(), axis) !=
         delivery.broadcast_axes.end();
}

model::ClientView view_of(const Mesh& mesh, const DeliverySpec& delivery, Rank rank,
                          bool slices_dealt) {
  model::ClientView view;
  view.bucket =
      slices_dealt ? ClientPlaceTree(mesh).consumer_of(rank, "cp") : bucket_of(mesh, rank);
  for (const std::string& axis : delivery.broadcast_axes) {
    if (mesh.coordinate(rank, axis) > 0) {
      view.share = Share::kNone;
      view.fields = 0;
      return view;
    }
  }
  view.fields = stage_fields(mesh, rank, delivery.all_stages);
  if ((view.fields & model::kPayloadFields) == 0) {
    view.share = Share::kBoundaries;
    return view;
  }
  const uint32_t slices = slices_dealt ? 1 : mesh.size("cp");
  // Where the trainer broadcasts along cp, coordinate 0 hands out the whole sequence.
  if (slices > 1 && delivery.slicing != Slicing::kTrainer && !broadcast_to(delivery, "cp")) {
    view.share = Share::kSlice;
    view.slice = mesh.coordinate(rank, "cp");
    view.slices = slices;
    OVERLORD_CHECK(view.slice < view.slices, "a slice of the sequence");
  }
  return view;
}

// The largest and smallest multiples around `bins`, for the error message.
std::string nearest_multiples(uint32_t bins, uint32_t unit) {
  const uint32_t below = bins / unit * unit;
  const uint32_t above = below + unit;
  return below == 0 ? std::to_string(above)
                    : std::to_string(below) + " or " + std::to_string(above);
}

Status check_slicing(const JobSpec& spec, const Mesh& mesh, const DeliverySpec& delivery) {
  const uint32_t slices = mesh.size("cp");
  if (slices == 1 || delivery.slicing == Slicing::kTrainer) return {};
  if (delivery.slicing == Slicing::kDocumentZigzag && spec.align % (2 * slices) != 0) {
    return invalid_argument("align: document_zigzag needs a multiple of 2 x cp = " +
                            std::to_string(2 * slices) + ", got " + std::to_string(spec.align));
  }
  const uint32_t unit = delivery.slicing == Slicing::kContiguous ? slices : 2 * slices;
  if (spec.context % unit != 0) {
    return invalid_argument("context: this cp slicing needs a multiple of " + std::to_string(unit) +
                            ", got " + std::to_string(spec.context) + "; nearest " +
                            nearest_multiples(spec.context, unit));
  }
  return {};
}

// Hashes memory of fixed little-endian layout: Segment and uint32 have no padding.
Digest bins_hash(std::span<const model::Segment> segments, std::span<const uint32_t> bin_ends) {
  return chain(digest_of(segments.data(), segments.size_bytes()),
               digest_of(bin_ends.data(), bin_ends.size_bytes()));
}

// Who works with whom on what, and in which order.
void hash_groups(const model::HdpLayer& hdp, ByteWriter* writer) {
  writer->u32(hdp.align);
  for (const model::HdpGroup& group : hdp.groups) {
    writer->u32(group.substep);
    writer->u32(group.microbatch);
    writer->u32(group.offload_permille);
    for (const uint32_t consumer : group.ranks) writer->u32(consumer);
    writer->u32(static_cast<uint32_t>(group.ranks.size()));
    for (const uint32_t sequence : group.sequences) writer->u32(sequence);
    writer->u32(static_cast<uint32_t>(group.sequences.size()));
  }
  for (const model::HdpShare& share : hdp.shares) {
    writer->u32(share.group);
    writer->u32(share.member);
  }
}

// Samples are many and moved one by one, so memory is hashed as it lies: three and two uint32 have
// no padding either. Exchanges follow from the placements of the two layers, but for the size of
// what is moved.
void hash_encoder(const model::Layer& layer, ByteWriter* writer) {
  const std::span<const model::Placement> placements(layer.placements);
  const std::span<const model::Dummy> dummies(layer.encoder->dummies);
  static_assert(sizeof(model::Placement) == 12 && sizeof(model::Dummy) == 8);
  writer->digest(digest_of(placements.data(), placements.size_bytes()));
  writer->digest(bins_hash(layer.segments, layer.bin_ends));
  writer->u32(layer.encoder->bytes_per_unit);
  writer->digest(digest_of(dummies.data(), dummies.size_bytes()));
}

void hash_placement(const model::Layer& layer, ByteWriter* writer) {
  writer->text(layer.module);
  writer->text(layer.axis);
  writer->u32(layer.buckets);
  writer->u32(layer.microbatches);
  writer->u32(layer.microbatch_size);
  writer->u32(layer.bin_capacity);
  if (layer.encoder != nullptr) {
    hash_encoder(layer, writer);
  } else {
    for (const model::Placement& place : layer.placements) {
      writer->u32(place.bucket);
      writer->u32(place.microbatch);
      writer->u32(place.slot);
    }
  }
  writer->digest(layer.views->digest);
  if (layer.hdp != nullptr) hash_groups(*layer.hdp, writer);
  if (!layer.capacities.empty()) {  // its bins are not those of the step's content
    for (const uint32_t capacity : layer.capacities) writer->u32(capacity);
    writer->digest(bins_hash(layer.segments, layer.bin_ends));
  }
}

Digest content_hash_of(StepIndex step, const StepContent& content) {
  ByteWriter head;
  head.u64(step);
  head.u64(content.target_tokens);
  head.u8(content.last ? 1 : 0);
  const std::span<const model::Segment> segments(content.segments);
  const std::span<const uint32_t> bin_ends(content.bin_ends);
  return chain(chain(digest_of(head.bytes()), digest_of(segments.data(), segments.size_bytes())),
               digest_of(bin_ends.data(), bin_ends.size_bytes()));
}

// Segments by the steps they waited.
std::vector<uint32_t> count_waits(const StepContent& content) {
  std::vector<uint32_t> delays(size_t{content.max_delay} + 1, 0);
  for (const uint32_t wait : content.waits) {
    OVERLORD_CHECK(wait <= content.max_delay, "no segment waited longer than the longest");
    ++delays[wait];
  }
  return delays;
}

Digest plan_hash_of(const model::Plan& plan) {
  ByteWriter writer;
  const model::Versions& versions = plan.versions;
  writer.u64(versions.job);
  writer.u32(versions.tree);
  writer.u32(versions.mixture);
  writer.u32(versions.format);
  for (const model::Layer& layer : plan.layers) hash_placement(layer, &writer);
  return chain(plan.content_hash, digest_of(writer.bytes()));
}

// What placing may move and cut, and never lose.
struct Contents {
  uint64_t tokens = 0;
  uint64_t targets = 0;

  explicit Contents(std::span<const model::Segment> segments) {
    for (const model::Segment& segment : segments) {
      OVERLORD_CHECK(segment.count > 0 && segment.targets <= segment.count, "a segment has tokens");
      tokens += segment.count;
      targets += segment.targets;
    }
  }
};

// Lengths of microbatches must be sliced as whole sequences are.
uint32_t length_unit(const JobSpec& spec, const Mesh& mesh, const DeliverySpec& delivery) {
  const uint32_t slices = delivery.slicing == Slicing::kTrainer ? 1 : mesh.size("cp");
  const uint32_t unit = delivery.slicing == Slicing::kContiguous ? slices : 2 * slices;
  return std::lcm(spec.align, slices == 1 ? 1 : unit);
}

// The same with samples whole or cut over several consumers.
Result<std::shared_ptr<DGraph>> make_slices(const PlanInputs& inputs, StepContent content,
                                            model::Layer* layer) {
  OVERLORD_TRY(HdpPlaced placed, place_hdp(inputs.spec, inputs.mesh, std::move(content.segments),
                                           content.bin_ends, inputs.loss));
  layer->capacities = std::move(placed.capacities);
  layer->bucket_microbatches = std::move(placed.bucket_microbatches);
  layer->hdp = std::move(placed.layer);
  layer->report = std::make_shared<const model::PlanReport>(placed.report);
  return std::move(placed.graph);
}

// A plan of a strategy with functions of a user cannot be made without their answers.
Status check_all_asked(const model::Strategy& strategy, const model::CalloutAnswers& answers) {
  if ((strategy.cost_by.declared() && !answers.costs) ||
      (strategy.has_own_places() && !answers.seats)) {
    return invalid_argument("strategy: its Python functions cannot be called here");
  }
  return {};
}

// The graph with all bins placed; where samples are dealt one by one, `layer` gets their lengths.
Result<std::shared_ptr<DGraph>> make_graph(const PlanInputs& inputs, StepContent content,
                                           Placer* placer, model::Layer* layer) {
  const JobSpec& spec = inputs.spec;
  if (spec.strategy.atoms == model::Atoms::kSlices) {
    return make_slices(inputs, std::move(content), layer);
  }
  const GraphShape shape = graph_shape(spec, content.bin_ends.size(), inputs.mesh, inputs.delivery);
  const DealShape deal{spec.substeps, inputs.mesh.size("pp")};
  static const model::CalloutAnswers kNone;
  const model::CalloutAnswers& answers = inputs.answers != nullptr ? *inputs.answers : kNone;
  OVERLORD_RETURN_IF_ERROR(check_all_asked(spec.strategy, answers));
  if (spec.strategy.atoms == model::Atoms::kSequences) {
    auto graph =
        std::make_shared<DGraph>(std::move(content.segments), std::move(content.bin_ends), shape);
    graph->set_columns(std::move(content.columns));
    if (answers.costs) {
      OVERLORD_RETURN_IF_ERROR(set_answered_costs(spec.strategy, *answers.costs, graph.get()));
    }
    OVERLORD_RETURN_IF_ERROR(
        answers.seats ? placer->place_as_told(spec.strategy, deal, *answers.seats, graph.get())
                      : placer->place(spec.strategy, deal, graph.get()));
    return graph;
  }
  const CutShape cut{shape.consumers,
                     shape.microbatches / spec.substeps,
                     spec.substeps,
                     microbatch_limit(spec, inputs.delivery),
                     spec.align,
                     length_unit(spec, inputs.mesh, inputs.delivery),
                     spec.strategy.virtual_stages > 1 ? deal.stages : 1};
  std::vector<int64_t> costs;
  if (answers.costs) {
    costs = *answers.costs;
  } else {
    OVERLORD_TRY(costs, segment_costs(spec.strategy.cost, content.segments, content.columns));
  }
  return placer->place_samples(spec.strategy, deal, cut, content.segments, costs, content.bin_ends,
                               content.columns, &layer->capacities);
}

// Several costs with one owner: by whole sequences, and only the vector method evens them out.
Status check_vector(const model::Strategy& strategy) {
  const bool vector = strategy.balance == model::BalanceMethod::kVector;
  if (vector != !strategy.further_costs.empty()) {
    return invalid_argument(
        "strategy.further_costs: method vector evens out several costs, and only it does; give "
        "both or none of them");
  }
  if (vector && strategy.atoms == model::Atoms::kSamples) {
    return invalid_argument("strategy.balance.atoms: vector deals whole sequences, got samples");
  }
  if (vector && strategy.memory_limit > 0) {
    return invalid_argument("strategy.balance.memory_limit: method vector keeps none; remove it");
  }
  return {};
}

}  // namespace

uint32_t consumer_count(const model::Strategy& strategy, const Mesh& mesh) {
  if (strategy.atoms != model::Atoms::kSlices) return bucket_count(mesh);
  return ClientPlaceTree(mesh).count_at(strategy.axis);
}

// Microbatches of every bucket: whole rounds for every substep, so that a substep ends at the same
// microbatch on every rank.
GraphShape graph_shape(const JobSpec& spec, uint64_t bins, const Mesh& mesh,
                       const DeliverySpec& delivery) {
  const uint32_t buckets = bucket_count(mesh);
  const uint32_t width = buckets * delivery.microbatch_size;
  const auto per_substep = static_cast<uint32_t>(bins / spec.substeps);
  OVERLORD_CHECK(width > 0 && per_substep > 0, "a substep has bins and somebody to take them");
  const uint32_t rounds = (per_substep + width - 1) / width;
  return {buckets, rounds * spec.substeps, delivery.microbatch_size};
}

uint32_t microbatch_limit(const JobSpec& spec, const DeliverySpec& delivery) {
  const uint32_t declared = spec.strategy.microbatch_tokens;
  return declared > 0 ? declared : delivery.microbatch_size * spec.context;
}

Status check_fit(const JobSpec& spec, const Mesh& mesh, const DeliverySpec& delivery) {
  if (delivery.microbatch_size == 0) return invalid_argument("microbatch_size: starts at 1, got 0");
  const bool slices_dealt = spec.strategy.atoms == model::Atoms::kSlices;
  const uint32_t width = bucket_count(mesh) * delivery.microbatch_size;
  for (const model::BinsStage& stage : spec.bin_stages()) {
    if (stage.bins / spec.substeps % width == 0 || delivery.fill_empty || slices_dealt) continue;
    const std::string from =
        spec.later_bins.empty() ? "" : " from step " + std::to_string(stage.first_step) + " on";
    return invalid_argument(
        "bins: dp x microbatch_size x substeps = " + std::to_string(width * spec.substeps) +
        " must divide bins, got " + std::to_string(stage.bins) + from + "; nearest " +
        nearest_multiples(stage.bins, width * spec.substeps) +
        ", or set delivery.fill_empty to add empty microbatches");
  }
  for (const std::string& axis : delivery.broadcast_axes) {
    if (is_data_axis(axis)) {
      return invalid_argument("broadcast: a data axis cannot be broadcast: " + axis);
    }
  }
  return slices_dealt ? Status() : check_slicing(spec, mesh, delivery);
}

Status check_cost_columns(const model::CostModel& cost, const JobSpec& spec, std::string_view key) {
  for (const model::CostTerm& term : cost.terms) {
    if (term.column == "tokens") continue;
    if (std::binary_search(spec.columns.begin(), spec.columns.end(), term.column)) continue;
    std::string allowed = "tokens";
    for (const std::string& column : spec.columns) allowed += ", " + column;
    return invalid_argument(std::string(key) + ": no source declares the metadata column '" +
                            term.column + "'; allowed: " + allowed +
                            "; add it to sources.NAME.metadata");
  }
  return {};
}

Status check_strategy(const JobSpec& spec, const Mesh& mesh, const DeliverySpec& delivery) {
  const model::Strategy& strategy = spec.strategy;
  OVERLORD_RETURN_IF_ERROR(check_callouts(strategy));
  if (strategy.atoms == model::Atoms::kSlices) {
    if (strategy.encoder) {
      return invalid_argument(
          "strategy.encoder: an encoder's layer follows whole samples and does "
          "not go together with strategy.hybrid; remove one of them");
    }
    return check_hdp_strategy(spec, mesh, delivery);
  }
  if (strategy.has_cost) {
    OVERLORD_RETURN_IF_ERROR(check_cost_columns(strategy.cost, spec, "strategy.cost"));
  }
  for (const model::BinsStage& stage : spec.bin_stages()) {
    const uint32_t rounds =
        graph_shape(spec, stage.bins, mesh, delivery).microbatches / spec.substeps;
    if (strategy.virtual_stages <= 1 || rounds % mesh.size("pp") == 0) continue;
    return invalid_argument(
        "strategy.order.virtual_stages: an interleaved pipeline needs a "
        "multiple of pp = " +
        std::to_string(mesh.size("pp")) + " microbatches, this job has " + std::to_string(rounds));
  }
  OVERLORD_RETURN_IF_ERROR(ClientPlaceTree(mesh).check_axis(strategy.axis));
  if (!is_data_axis(strategy.axis) &&
      ClientPlaceTree(mesh).count_at(strategy.axis) != bucket_count(mesh)) {
    return invalid_argument(
        "strategy.distribute: whole sequences are dealt over the data axes, "
        "got axis '" +
        strategy.axis + "' of the mesh " + mesh.text() +
        "; allowed: dp, or cp with strategy.hybrid");
  }
  if (strategy.atoms == model::Atoms::kSamples) {
    if (strategy.level != model::BalanceLevel::kInterleaved || strategy.group_size != 0 ||
        strategy.balance == model::BalanceMethod::kArrival) {
      return invalid_argument(
          "strategy.balance.atoms: samples are dealt at level interleaved, "
          "without group_size, by a method other than arrival");
    }
    if (microbatch_limit(spec, delivery) < spec.context) {
      return invalid_argument("strategy.balance.microbatch_tokens: must hold a whole context of " +
                              std::to_string(spec.context) + ", got " +
                              std::to_string(strategy.microbatch_tokens));
    }
  }
  if (strategy.memory_limit > 0 && strategy.atoms == model::Atoms::kSamples) {
    return invalid_argument(
        "strategy.balance.memory_limit: is for whole sequences; microbatches of samples are "
        "limited by microbatch_tokens");
  }
  if (strategy.memory_limit > 0 && !strategy.has_cost) {
    return invalid_argument("strategy.balance.memory_limit: needs a cost; add strategy.cost");
  }
  if (!strategy.has_cost && strategy.balance != model::BalanceMethod::kArrival) {
    return invalid_argument("strategy.balance: needs a cost; add strategy.cost");
  }
  OVERLORD_RETURN_IF_ERROR(check_vector(strategy));
  for (const model::CostModel& cost : strategy.further_costs) {
    OVERLORD_RETURN_IF_ERROR(check_cost_columns(cost, spec, "strategy.further_costs"));
  }
  return strategy.encoder ? check_encoder(spec, mesh) : Status();
}

std::shared_ptr<const model::ViewTable> make_views(const Mesh& mesh, const DeliverySpec& delivery,
                                                   uint32_t tree_version,
                                                   const model::Strategy& strategy) {
  const bool slices_dealt = strategy.atoms == model::Atoms::kSlices;
  auto table = std::make_shared<model::ViewTable>();
  table->tree_version = tree_version;
  table->slicing = slices_dealt ? Slicing::kTrainer : delivery.slicing;
  ByteWriter writer;
  writer.u8(static_cast<uint8_t>(table->slicing));
  for (Rank rank = 0; rank < mesh.world_size(); ++rank) {
    const model::ClientView view = view_of(mesh, delivery, rank, slices_dealt);
    writer.u32(view.bucket);
    writer.u8(static_cast<uint8_t>(view.share));
    writer.u8(view.fields);
    writer.u32(view.slice);
    writer.u32(view.slices);
    table->by_rank.push_back(view);
  }
  OVERLORD_CHECK(table->by_rank.size() == mesh.world_size(), "a view for every rank");
  table->digest = digest_of(writer.bytes());
  if (strategy.encoder) {
    table->encoder = make_encoder_table(*strategy.encoder, mesh, delivery, *table);
  }
  return table;
}

std::shared_ptr<const model::ViewTable> make_views(const Mesh& mesh, const DeliverySpec& delivery,
                                                   uint32_t tree_version,
                                                   const model::Strategy& strategy,
                                                   const std::vector<Rank>& ranks, uint32_t world) {
  const auto own = make_views(mesh, delivery, tree_version, strategy);
  if (ranks.empty()) return own;
  OVERLORD_CHECK(ranks.size() == mesh.world_size() && !own->encoder, "a rank for every place");
  auto seated = std::make_shared<model::ViewTable>(*own);
  seated->by_rank.assign(world, model::ClientView{model::kNoBucket, model::Share::kFull, 0, 0, 1});
  for (size_t place = 0; place < ranks.size(); ++place) {
    seated->by_rank.at(ranks[place]) = own->by_rank[place];
  }
  return seated;
}

std::vector<Rank> ranks_served(const model::ViewTable& views, bool payload) {
  const uint8_t wanted = payload ? model::kPayloadFields : model::kAllFields;
  std::vector<Rank> out;
  for (Rank rank = 0; rank < views.by_rank.size(); ++rank) {
    const bool encodes = views.encoder && views.encoder->place_of[rank] != model::kNoPlace;
    if (encodes || (views.by_rank[rank].fields & wanted) != 0) out.push_back(rank);
  }
  return out;
}

Result<model::Plan> build_plan(const PlanInputs& inputs, StepIndex step, Selection selection,
                               Placer* placer, std::shared_ptr<const DGraph>* explained) {
  const JobSpec& spec = inputs.spec;
  OVERLORD_CHECK(selection.content.has_value(), "a plan needs a selected step");
  StepContent& content = *selection.content;
  OVERLORD_CHECK(content.bin_ends.size() == spec.bins_at(step), "a step has exactly its bins");
  const Contents selected(content.segments);
  model::Plan plan;
  plan.versions = inputs.versions;
  plan.step = step;
  plan.tokens = content.tokens;
  plan.target_tokens = content.target_tokens;
  plan.capacity = content.bin_ends.size() * spec.context;
  plan.asked = std::move(content.asked);
  plan.served = std::move(content.served);
  plan.max_delay = content.max_delay;
  plan.delays = count_waits(content);
  plan.last = content.last;
  plan.content_hash = content_hash_of(step, content);
  model::Layer layer;
  layer.axis = spec.strategy.axis;
  layer.bin_capacity = spec.context;
  layer.views = inputs.views;
  OVERLORD_TRY(std::shared_ptr<DGraph> graph,
               make_graph(inputs, std::move(content), placer, &layer));
  if (!layer.capacities.empty()) {
    plan.capacity = std::accumulate(layer.capacities.begin(), layer.capacities.end(), uint64_t{0});
  }
  const DealShape deal{spec.substeps, inputs.mesh.size("pp")};
  layer.buckets = graph->shape().consumers;
  layer.microbatches = graph->shape().microbatches;
  layer.microbatch_size = graph->shape().microbatch_size;
  OVERLORD_TRY(layer.placements, graph->read_placements());
  if (spec.strategy.has_cost) {
    OVERLORD_TRY(model::PlanReport report, Placer::report(spec.strategy, deal, *graph));
    layer.report = std::make_shared<const model::PlanReport>(report);
    layer.further_reports = placer->further_reports(*graph);
  }
  std::optional<model::Layer> encoder;
  if (spec.strategy.encoder) {
    OVERLORD_CHECK(inputs.views->encoder != nullptr, "the views were made for this strategy");
    OVERLORD_TRY(encoder, build_encoder_layer(*spec.strategy.encoder, layer, inputs.views->encoder,
                                              placer->balancer(), graph.get()));
  }
  graph->release(&layer.segments, &layer.bin_ends);
  const Contents placed(layer.segments);
  OVERLORD_CHECK(placed.tokens == selected.tokens, "every selected token is placed once");
  OVERLORD_CHECK(placed.targets == selected.targets, "every target is placed once");
  OVERLORD_CHECK(layer.placements.size() == layer.bin_ends.size(), "every bin has a place");
  plan.layers.push_back(std::move(layer));
  if (encoder) plan.layers.push_back(std::move(*encoder));
  plan.plan_hash = plan_hash_of(plan);
  plan.state_after = std::make_shared<const model::StreamState>(std::move(selection.after));
  if (explained != nullptr) *explained = std::move(graph);
  return plan;
}

}  // namespace overlord::plan
