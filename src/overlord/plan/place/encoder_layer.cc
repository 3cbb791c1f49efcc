#include "overlord/plan/place/encoder_layer.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "overlord/base/bytes.h"
#include "overlord/base/check.h"
#include "overlord/plan/balance/balance_bound.h"
#include "overlord/plan/balance/two_modules.h"
#include "overlord/plan/cost/cost.h"
#include "overlord/plan/place/client_place_tree.h"
#include "overlord/plan/place/place_tree.h"

namespace overlord::plan {
namespace {

using model::EncoderStrategy;

constexpr uint16_t kEncoderPart = 1;

// The samples that have something to encode, in the backbone's order.
struct Rows {
  std::vector<model::Segment> segments;
  std::vector<uint32_t> backbone_segment;
  std::vector<uint32_t> backbone_of;
  std::vector<uint32_t> microbatch_of;
  std::vector<int64_t> bytes;
};

constexpr std::string_view kTokens = "tokens";

// Units of every sample.
Result<std::vector<int64_t>> find_units(const EncoderStrategy& strategy, const DGraph& graph) {
  if (strategy.column == kTokens) {
    std::vector<int64_t> units;
    units.reserve(graph.samples());
    for (const model::Segment& segment : graph.segments()) units.push_back(segment.count);
    return units;
  }
  std::string known(kTokens);
  for (const model::MetaColumn& column : graph.columns()) {
    if (column.name == strategy.column) return column.values;
    known += ", " + column.name;
  }
  return invalid_argument("strategy.encoder.column: no metadata column '" + strategy.column +
                          "'; there are: " + known);
}

Result<Rows> find_rows(const EncoderStrategy& strategy, const model::Layer& backbone,
                       const DGraph& graph) {
  OVERLORD_TRY(const std::vector<int64_t> units_of, find_units(strategy, graph));
  OVERLORD_CHECK(units_of.size() == graph.samples(), "one value per sample");
  Rows rows;
  uint32_t sample = 0;
  for (uint32_t bin = 0; bin < graph.bins(); ++bin) {
    for (; sample < graph.bin_ends()[bin]; ++sample) {
      const int64_t units = units_of[sample];
      if (units == 0) continue;
      const model::Segment& segment = graph.segments()[sample];
      const SampleId& id = segment.id;
      if (units < 0 || units > model::kMaxCostLength) {
        return invalid_argument("strategy.encoder.column: sample " + std::to_string(id.position) +
                                " of source " + std::to_string(id.source) + " has " +
                                std::to_string(units) + " in '" + strategy.column +
                                "'; allowed: 0 to 2^32 - 1");
      }
      // Of a cut document's tokens every segment is encoded by itself; media belongs to the whole.
      const uint32_t first = strategy.column == kTokens ? segment.first : 0;
      rows.segments.push_back({id, first, static_cast<uint32_t>(units), kEncoderPart, 0, 0});
      rows.backbone_segment.push_back(sample);
      rows.backbone_of.push_back(backbone.placements[bin].bucket);
      rows.microbatch_of.push_back(backbone.placements[bin].microbatch);
      rows.bytes.push_back(units * strategy.bytes_per_unit);
    }
  }
  OVERLORD_CHECK(sample == graph.samples(), "every sample is in a bin");
  return rows;
}

// At least 1: a sample that has something to encode has an owner, however little it costs.
Result<std::vector<int64_t>> costs_of(const EncoderStrategy& strategy, const DGraph& graph,
                                      const Rows& rows) {
  std::vector<std::vector<int64_t>> values;
  std::vector<LengthColumn> columns;
  values.reserve(graph.columns().size() + 1);
  const auto add = [&](std::string_view name, const auto& value_of) {
    std::vector<int64_t>& own = values.emplace_back();
    for (const uint32_t sample : rows.backbone_segment) own.push_back(value_of(sample));
    columns.push_back({name, own});
  };
  add(kTokens, [&](uint32_t sample) { return int64_t{graph.segments()[sample].count}; });
  for (const model::MetaColumn& column : graph.columns()) {
    add(column.name, [&](uint32_t sample) { return column.values[sample]; });
  }
  OVERLORD_TRY(std::vector<int64_t> costs, evaluate(strategy.cost, columns));
  for (int64_t& cost : costs) cost = std::max<int64_t>(cost, 1);
  return costs;
}

// Rows of the fullest seat: how many slots a microbatch of an encoder has.
uint32_t most_rows(const EncoderLayer& placed, const Rows& rows, uint32_t microbatches,
                   uint32_t encoders) {
  std::vector<uint32_t> count(size_t{encoders} * microbatches, 0);
  uint32_t most = 1;
  for (size_t i = 0; i < rows.segments.size(); ++i) {
    OVERLORD_CHECK(placed.encoder_of[i] < encoders && rows.microbatch_of[i] < microbatches,
                   "what is encoded has an owner");
    const size_t seat = size_t{placed.encoder_of[i]} * microbatches + rows.microbatch_of[i];
    most = std::max(most, ++count[seat]);
  }
  return most;
}

// One bin per sample: each is moved by itself.
std::shared_ptr<DGraph> make_graph(const EncoderStrategy& strategy, const EncoderLayer& placed,
                                   const Rows& rows, std::vector<int64_t> costs, GraphShape shape) {
  OVERLORD_CHECK(costs.size() == rows.segments.size(), "a cost for every sample");
  std::vector<uint32_t> bin_ends(rows.segments.size());
  for (uint32_t i = 0; i < bin_ends.size(); ++i) bin_ends[i] = i + 1;
  auto graph = std::make_shared<DGraph>(rows.segments, std::move(bin_ends), shape);
  const EdgeOp op =
      strategy.balance == model::BalanceMethod::kArrival ? EdgeOp::kDeal : EdgeOp::kBalance;
  for (uint32_t i = 0; i < rows.segments.size(); ++i) {
    graph->put(i, placed.encoder_of[i], rows.microbatch_of[i], op);
  }
  std::vector<int64_t> same = costs;
  graph->set_costs(std::move(costs), std::move(same));
  return graph;
}

// The exchange after every microbatch waits for its slowest encoder, so the time of the layer is
// the sum of those, and the bound the sum of their bounds.
model::PlanReport report_of(const EncoderLayer& placed, int64_t arrival, const DGraph& graph) {
  const GraphShape& shape = graph.shape();
  OVERLORD_CHECK(placed.lower_bound <= placed.slowest_sum, "no placement is better than its bound");
  model::PlanReport report;
  report.consumers = shape.consumers;
  report.microbatches = shape.microbatches;
  for (const int64_t load : placed.loads) report.total += load;
  report.consumer_max = report.step_ns = placed.slowest_sum;
  report.consumer_min = *std::min_element(placed.loads.begin(), placed.loads.end());
  report.lower_bound = placed.lower_bound;
  report.arrival_step_ns = arrival;
  report.even_step_ns = report.total / shape.consumers;
  report.microbatch_mean = report.total / (int64_t{shape.consumers} * shape.microbatches);
  uint32_t slowest = 0;
  for (uint32_t m = 0; m < placed.microbatches.size(); ++m) {
    if (placed.microbatches[m].slowest > placed.microbatches[slowest].slowest) slowest = m;
  }
  report.microbatch_max = placed.microbatches[slowest].slowest;
  report.bound_by = bound_by(placed.microbatches[slowest].bound_by);
  const std::vector<int64_t> costs = graph.microbatch_costs();
  for (uint32_t encoder = 0; encoder < shape.consumers; ++encoder) {
    if (costs[size_t{encoder} * shape.microbatches + slowest] != report.microbatch_max) continue;
    report.limiting_consumer = encoder;
    break;
  }
  for (uint32_t row = 0; row < graph.bins(); ++row) {
    const bool there =
        graph.consumer_of(row) == report.limiting_consumer && graph.microbatch_of(row) == slowest;
    if (!there || graph.bin_costs()[row] <= report.limiting_sample_cost) continue;
    report.limiting_bin = row;
    report.limiting_sample = graph.segments()[row].id;
    report.limiting_sample_cost = graph.bin_costs()[row];
  }
  return report;
}

bool runs(const EncoderStrategy& strategy, const model::Mesh& mesh,
          const model::DeliverySpec& delivery, Rank rank) {
  for (const std::string& axis : delivery.broadcast_axes) {
    if (!tells_apart(strategy.axis, axis) && mesh.coordinate(rank, axis) > 0) return false;
  }
  return delivery.all_stages || tells_apart(strategy.axis, "pp") ||
         mesh.coordinate(rank, "pp") == 0;
}

std::shared_ptr<const model::ViewTable> encoder_views(const EncoderStrategy& strategy,
                                                      const model::Mesh& mesh,
                                                      const model::DeliverySpec& delivery,
                                                      uint32_t tree_version) {
  auto views = std::make_shared<model::ViewTable>();
  views->tree_version = tree_version;
  views->slicing = delivery.slicing;
  const ClientPlaceTree tree(mesh);
  ByteWriter writer;
  for (Rank rank = 0; rank < mesh.world_size(); ++rank) {
    model::ClientView view;
    view.bucket = tree.consumer_of(rank, strategy.axis);
    view.share = runs(strategy, mesh, delivery, rank) ? model::Share::kFull : model::Share::kNone;
    view.fields = 0;  // no payload yet
    writer.u32(view.bucket);
    writer.u8(static_cast<uint8_t>(view.share));
    views->by_rank.push_back(view);
  }
  views->digest = digest_of(writer.bytes());
  return views;
}

}  // namespace

Status check_encoder(const model::JobSpec& spec, const model::Mesh& mesh) {
  const EncoderStrategy& encoder = *spec.strategy.encoder;
  if (encoder.module.empty() || encoder.module == "backbone") {
    return invalid_argument("strategy.encoder.module: a name of its own, got '" + encoder.module +
                            "'");
  }
  const Status axis = ClientPlaceTree(mesh).check_axis(encoder.axis);
  if (!axis.ok()) return invalid_argument("strategy.encoder." + axis.message());
  if (encoder.balance == model::BalanceMethod::kVector) {
    return invalid_argument(
        "strategy.encoder.balance: an encoder has one cost; vector is for strategy.balance, where "
        "modules share their owner");
  }
  const model::CostModel column = tokens_cost(encoder.column);  // names that column and no other
  OVERLORD_RETURN_IF_ERROR(check_cost_columns(column, spec, "strategy.encoder.column"));
  return check_cost_columns(encoder.cost, spec, "strategy.encoder.cost");
}

std::shared_ptr<const model::EncoderTable> make_encoder_table(const EncoderStrategy& strategy,
                                                              const model::Mesh& mesh,
                                                              const model::DeliverySpec& delivery,
                                                              const model::ViewTable& backbone) {
  auto table = std::make_shared<model::EncoderTable>();
  table->views = encoder_views(strategy, mesh, delivery, backbone.tree_version);
  table->runners.resize(ClientPlaceTree(mesh).count_at(strategy.axis));
  table->receivers.resize(bucket_count(mesh));
  table->place_of.assign(mesh.world_size(), model::kNoPlace);
  for (Rank rank = 0; rank < mesh.world_size(); ++rank) {
    const model::ClientView& own = table->views->by_rank[rank];
    const model::ClientView& text = backbone.by_rank[rank];
    const bool sends = own.share != model::Share::kNone;
    const bool receives = (text.fields & model::kFieldTokens) != 0;
    if (sends) table->runners[own.bucket].push_back(rank);
    if (receives) table->receivers[text.bucket].push_back(rank);
    if (!sends && !receives) continue;
    table->place_of[rank] = static_cast<uint32_t>(table->group.size());
    table->group.push_back(rank);
  }
  const auto somebody = [](const std::vector<Rank>& ranks) { return !ranks.empty(); };
  OVERLORD_CHECK(std::all_of(table->runners.begin(), table->runners.end(), somebody) &&
                     std::all_of(table->receivers.begin(), table->receivers.end(), somebody),
                 "pruning leaves somebody to encode and somebody to receive");
  return table;
}

Result<model::Layer> build_encoder_layer(const EncoderStrategy& strategy,
                                         const model::Layer& backbone,
                                         std::shared_ptr<const model::EncoderTable> table,
                                         Balancer* balancer, DGraph* graph) {
  OVERLORD_TRY(Rows rows, find_rows(strategy, backbone, *graph));
  OVERLORD_TRY(std::vector<int64_t> costs, costs_of(strategy, *graph, rows));
  const auto encoders = static_cast<uint32_t>(table->runners.size());
  const uint32_t microbatches = graph->shape().microbatches;
  const EncoderProblem problem{costs,    rows.microbatch_of, microbatches,
                               encoders, strategy.parity,    strategy.group_size};
  OVERLORD_TRY(EncoderLayer placed, place_encoder(strategy.balance, problem, balancer));
  const int64_t arrival = slowest_in_turn(problem);
  auto encoder = std::make_shared<model::EncoderPlan>();
  encoder->exchanges = make_exchanges(placed, problem, rows.backbone_of, rows.bytes);
  encoder->bytes_per_unit = strategy.bytes_per_unit;
  const GraphShape shape{encoders, microbatches, most_rows(placed, rows, microbatches, encoders)};
  const auto own = make_graph(strategy, placed, rows, std::move(costs), shape);
  model::Layer layer;
  layer.module = strategy.module;
  layer.axis = strategy.axis;
  layer.buckets = encoders;
  layer.microbatches = microbatches;
  layer.microbatch_size = shape.microbatch_size;
  OVERLORD_TRY(layer.placements, own->read_placements());
  OVERLORD_CHECK(layer.placements.size() == rows.segments.size(), "one bin per sample");
  layer.segments = std::move(rows.segments);
  layer.bin_ends.assign(own->bin_ends().begin(), own->bin_ends().end());
  layer.views = table->views;
  layer.report = std::make_shared<const model::PlanReport>(report_of(placed, arrival, *own));
  encoder->backbone_of = std::move(rows.backbone_of);
  encoder->backbone_segment = std::move(rows.backbone_segment);
  encoder->dummies = std::move(placed.dummies);
  encoder->table = std::move(table);
  layer.encoder = std::move(encoder);
  graph->set_encoder(own);
  return layer;
}

}  // namespace overlord::plan
