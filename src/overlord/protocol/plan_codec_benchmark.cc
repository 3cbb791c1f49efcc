// Time and size of a step of 300,000 segments in 32,768 bins for 64 buckets: the whole plan, the
// slice of one bucket, and segments as rows against segments as differences in varints, which is
// why they travel as rows.
#include <benchmark/benchmark.h>

#include "overlord/base/bytes.h"
#include "overlord/base/rng.h"
#include "overlord/model/plan_index.h"
#include "overlord/protocol/plan_codec.h"
#include "overlord/protocol/wire.h"

namespace overlord::protocol {
namespace {

constexpr uint32_t kSources = 306;
constexpr uint32_t kBuckets = 64;
constexpr uint32_t kMicrobatches = 64;
constexpr uint32_t kBinsOfOne = 8;
constexpr uint32_t kBins = kBuckets * kMicrobatches * kBinsOfOne;
constexpr uint32_t kSegments = 300'000;

struct Step {
  PlanContext context;
  model::PlanPtr plan;
};

model::Layer made_up_layer(std::shared_ptr<const model::ViewTable> views) {
  model::Layer layer;
  layer.buckets = kBuckets;
  layer.microbatches = kMicrobatches;
  layer.microbatch_size = kBinsOfOne;
  layer.bin_capacity = 8192;
  layer.views = std::move(views);
  std::vector<uint64_t> next(kSources, 5'000'000'000);
  for (uint32_t bin = 0; bin < kBins; ++bin) {
    layer.placements.push_back(
        {bin % kBuckets, bin / kBuckets / kBinsOfOne, bin / kBuckets % kBinsOfOne});
    const uint32_t end = static_cast<uint32_t>(uint64_t{kSegments} * (bin + 1) / kBins);
    while (layer.segments.size() < end) {
      model::Segment segment;
      segment.id.source =
          static_cast<uint32_t>(uniform_below(1, layer.segments.size(), 0, kSources));
      segment.id.position = next[segment.id.source]++;
      segment.count = 100 + static_cast<uint32_t>(uniform_below(2, layer.segments.size(), 0, 1500));
      segment.targets = segment.count - 1;
      layer.segments.push_back(segment);
    }
    layer.bin_ends.push_back(end);
  }
  return layer;
}

const Step& made_up_step() {
  static const Step step = [] {
    auto views = std::make_shared<model::ViewTable>();
    views->by_rank.resize(kBuckets);
    for (uint32_t rank = 0; rank < kBuckets; ++rank) views->by_rank[rank].bucket = rank;
    auto plan = std::make_shared<model::Plan>();
    plan->layers.push_back(made_up_layer(views));
    plan->asked.assign(kSources, 800'000);
    plan->served.assign(kSources, 800'000);
    auto state = std::make_shared<model::StreamState>();
    state->cursors.assign(kSources,
                          {3, 5'000'000'000, 12'345, 1'000'000, 1'000'000'000, 7, 0, false});
    plan->state_after = state;
    return Step{{{views}, kSources}, plan};
  }();
  return step;
}

void report_size(benchmark::State& state, size_t size_bytes, size_t segments) {
  state.counters["bytes"] = static_cast<double>(size_bytes);
  state.counters["bytes_per_segment"] =
      static_cast<double>(size_bytes) / static_cast<double>(segments);
}

void encode_whole(benchmark::State& state) {
  std::string bytes;
  for (auto _ : state) bytes = encode_plan(*made_up_step().plan);
  report_size(state, bytes.size(), kSegments);
}
BENCHMARK(encode_whole)->Unit(benchmark::kMillisecond);

void decode_whole(benchmark::State& state) {
  const std::string bytes = encode_plan(*made_up_step().plan);
  for (auto _ : state) {
    auto plan = decode_plan(bytes, made_up_step().context);
    benchmark::DoNotOptimize(plan);
  }
  report_size(state, bytes.size(), kSegments);
}
BENCHMARK(decode_whole)->Unit(benchmark::kMillisecond);

void index_whole(benchmark::State& state) {
  for (auto _ : state) {
    auto index = model::PlanIndex::make(*made_up_step().plan, kSources);
    benchmark::DoNotOptimize(index);
  }
}
BENCHMARK(index_whole)->Unit(benchmark::kMillisecond);

void encode_slice(benchmark::State& state) {
  const model::Plan& plan = *made_up_step().plan;
  const bool one = state.range(0) > 0;
  std::string bytes;
  for (auto _ : state) bytes = encode_plan(one ? plan_for_bucket(plan, 5) : plan_for_clients(plan));
  report_size(state, bytes.size(), kSegments / kBuckets);
}
BENCHMARK(encode_slice)->ArgName("buckets")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void decode_slice(benchmark::State& state) {
  const std::string bytes = encode_plan(plan_for_bucket(*made_up_step().plan, 5));
  for (auto _ : state) {
    auto plan = decode_plan(bytes, made_up_step().context);
    benchmark::DoNotOptimize(plan);
  }
  report_size(state, bytes.size(), kSegments / kBuckets);
}
BENCHMARK(decode_slice)->Unit(benchmark::kMillisecond);

std::string varint_segments(const std::vector<model::Segment>& segments) {
  ByteWriter writer;
  std::vector<uint64_t> positions(kSources);
  for (const model::Segment& segment : segments) {
    writer.varint(segment.id.source);
    writer.varint(segment.id.pass);
    writer.zigzag(static_cast<int64_t>(segment.id.position - positions[segment.id.source]));
    writer.varint(segment.first);
    writer.varint(segment.count);
    writer.varint(segment.part);
    writer.varint(segment.flags);
    writer.zigzag(int64_t{segment.count} - segment.targets);
    positions[segment.id.source] = segment.id.position;
  }
  return writer.take();
}

void decode_varint_segments(benchmark::State& state) {
  const std::string bytes = varint_segments(made_up_step().plan->layers.front().segments);
  for (auto _ : state) {
    ByteReader reader(bytes);
    std::vector<uint64_t> positions(kSources);
    std::vector<model::Segment> segments(kSegments);
    for (model::Segment& segment : segments) {
      segment.id.source = static_cast<uint32_t>(reader.varint());
      segment.id.pass = static_cast<uint32_t>(reader.varint());
      uint64_t& position = positions[segment.id.source % kSources];
      position += static_cast<uint64_t>(reader.zigzag());
      segment.id.position = position;
      segment.first = static_cast<uint32_t>(reader.varint());
      segment.count = static_cast<uint32_t>(reader.varint());
      segment.part = static_cast<uint16_t>(reader.varint());
      segment.flags = static_cast<uint16_t>(reader.varint());
      segment.targets = segment.count - static_cast<uint32_t>(reader.zigzag());
    }
    benchmark::DoNotOptimize(segments);
  }
  report_size(state, bytes.size(), kSegments);
}
BENCHMARK(decode_varint_segments)->Unit(benchmark::kMillisecond);

// A payload of 2,000 documents of 4 kB that both sides share, or that travel.
class OneRegion final : public RegionTable {
 public:
  explicit OneRegion(std::string_view bytes) : bytes_(bytes) {}
  std::optional<MemoryRef> describe(const void* data, size_t size_bytes) override {
    return MemoryRef{0, static_cast<uint64_t>(static_cast<const char*>(data) - bytes_.data()),
                     size_bytes};
  }
  Result<ResolvedMemory> resolve(const MemoryRef& ref) override {
    if (ref.offset > bytes_.size() || ref.size_bytes > bytes_.size() - ref.offset) {
      return bad_data("region: outside");
    }
    return ResolvedMemory{bytes_.data() + ref.offset, nullptr};
  }

 private:
  std::string_view bytes_;
};

void payload(benchmark::State& state) {
  const std::string documents(2000 * 4096, 'x');
  OneRegion region(documents);
  auto sent = std::make_shared<Payload>();
  for (uint32_t i = 0; i < 2000; ++i) {
    sent->ordinals.push_back(i);
    sent->spans.push_back({documents.data() + i * 4096, nullptr, 1024, model::Element::kI32});
  }
  RegionTable* regions = state.range(0) > 0 ? &region : nullptr;
  size_t size = 0;
  for (auto _ : state) {
    const std::string bytes = encode_message(PayloadPtr(sent), {regions, std::nullopt});
    auto got = decode_message(bytes, {{{}, kSources}, regions});
    benchmark::DoNotOptimize(got);
    size = bytes.size();
  }
  state.counters["bytes"] = static_cast<double>(size);
}
BENCHMARK(payload)->ArgName("shared")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace overlord::protocol
