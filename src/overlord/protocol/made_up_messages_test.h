// Random plans, payloads and steps for the codecs' tests: of a seed, and such that a decoder takes
// them. `MadeUpRegions` plays the memory that two processes share.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "overlord/protocol/fields/media_fields.h"
#include "overlord/protocol/fields/message_fields.h"
#include "overlord/protocol/fields/random_fields_test.h"
#include "overlord/protocol/wire.h"

namespace overlord::protocol {

struct PlanShape {
  uint32_t sources = 5;
  uint32_t ranks = 8;
  uint32_t buckets = 4;
  uint32_t microbatches = 3;
  uint32_t microbatch_size = 2;
  uint32_t segments_per_bin = 3;
  bool uneven = false;  // bins with lengths of their own
};

inline std::shared_ptr<const model::ViewTable> random_views(RandomFields& random,
                                                            const PlanShape& shape) {
  auto views = std::make_shared<model::ViewTable>(random.make<model::ViewTable>());
  views->by_rank.clear();
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    model::ClientView view;
    view.bucket = rank % shape.buckets;
    view.share = static_cast<model::Share>(random.below(4));
    view.slices = 1 + static_cast<uint32_t>(random.below(3));
    view.slice = static_cast<uint32_t>(random.below(view.slices));
    view.fields = static_cast<uint8_t>(random.below(model::kAllFields + 1));
    views->by_rank.push_back(view);
  }
  return views;
}

inline std::shared_ptr<const model::StreamState> random_state(RandomFields& random,
                                                              uint32_t sources) {
  auto state = std::make_shared<model::StreamState>();
  state->next_step = 10 + random.below(1000);
  state->ended = random.below(2) == 1;
  for (uint32_t s = 0; s < sources; ++s) {
    model::SourceCursor cursor;
    RandomFields& fill = random;
    fill(cursor.pass, cursor.position, cursor.debt, cursor.samples, cursor.tokens, cursor.bad);
    state->cursors.push_back(cursor);
  }
  model::Carried carried;
  carried.id = {static_cast<uint32_t>(random.below(sources)), 0, random.number() >> 4};
  carried.id.pass = state->cursors[carried.id.source].pass;
  carried.tokens = 100;
  carried.end = 60;
  carried.first = 10;
  carried.drawn_step = 5;
  carried.masked = true;
  carried.spans = {{1, 2}, {30, 4}};
  state->carried.push_back(carried);
  return state;
}

inline model::Layer random_layer(RandomFields& random, const PlanShape& shape) {
  model::Layer layer;
  layer.buckets = shape.buckets;
  layer.microbatches = shape.microbatches;
  layer.microbatch_size = shape.microbatch_size;
  random(layer.module, layer.axis, layer.bin_capacity);
  for (uint32_t b = 0; b < shape.buckets; ++b) {
    for (uint32_t m = 0; m < shape.microbatches; ++m) {
      for (uint32_t slot = 0; slot < shape.microbatch_size; ++slot) {
        layer.placements.push_back({b, m, slot});
      }
    }
  }
  for (size_t i = layer.placements.size(); i > 1; --i) {
    std::swap(layer.placements[i - 1], layer.placements[random.below(i)]);
  }
  for (size_t bin = 0; bin < layer.placements.size(); ++bin) {
    for (uint64_t i = random.below(2 * shape.segments_per_bin + 1); i > 0; --i) {
      auto segment = random.make<model::Segment>();
      segment.id.source %= shape.sources;
      segment.first >>= 1;
      segment.count >>= 1;
      layer.segments.push_back(segment);
    }
    layer.bin_ends.push_back(static_cast<uint32_t>(layer.segments.size()));
    if (shape.uneven) layer.capacities.push_back(random.make<uint32_t>());
  }
  if (random.below(2) == 1) random(layer.report);
  return layer;
}

inline model::PlanPtr random_plan(uint64_t seed, const PlanShape& shape,
                                  std::shared_ptr<const model::ViewTable> views) {
  RandomFields random(seed);
  auto plan = std::make_shared<model::Plan>();
  random(plan->versions, plan->step, plan->tokens, plan->target_tokens, plan->capacity);
  random(plan->max_delay, plan->last, plan->content_hash, plan->plan_hash);
  for (uint32_t s = 0; s < shape.sources; ++s) {
    plan->asked.push_back(random.number());
    plan->served.push_back(random.number());
  }
  plan->layers.push_back(random_layer(random, shape));
  plan->layers.back().views = std::move(views);
  plan->state_after = random_state(random, shape.sources);
  return plan;
}

// Regions that both sides see. The first byte of the first region has offset 0.
class MadeUpRegions final : public RegionTable {
 public:
  char* add(size_t size_bytes) {
    regions_.push_back(std::make_shared<std::string>(size_bytes, '\0'));
    return regions_.back()->data();
  }
  std::optional<MemoryRef> describe(const void* data, size_t size_bytes) override {
    const auto* begin = static_cast<const char*>(data);
    for (uint64_t r = 0; r < regions_.size(); ++r) {
      const std::string& region = *regions_[r];
      if (begin < region.data() || begin + size_bytes > region.data() + region.size()) continue;
      return MemoryRef{r, static_cast<uint64_t>(begin - region.data()), size_bytes};
    }
    return std::nullopt;
  }
  Result<ResolvedMemory> resolve(const MemoryRef& ref) override {
    if (ref.region >= regions_.size()) {
      return bad_data("region: unknown " + std::to_string(ref.region));
    }
    const std::string& region = *regions_[ref.region];
    if (ref.offset > region.size() || ref.size_bytes > region.size() - ref.offset) {
      return bad_data("region: outside of " + std::to_string(ref.region));
    }
    return ResolvedMemory{region.data() + ref.offset, regions_[ref.region]};
  }

 private:
  std::deque<std::shared_ptr<std::string>> regions_;
};

// Memory with random content, inside the regions or not.
struct BulkSource {
  RandomFields& random;
  MadeUpRegions* regions;  // null: all memory is private

  std::pair<char*, std::shared_ptr<const void>> make(size_t size_bytes) {
    std::shared_ptr<char[]> memory(new char[size_bytes + 1]);
    char* data = memory.get();
    if (regions != nullptr && random.below(3) > 0) data = regions->add(size_bytes + 1);
    for (size_t i = 0; i < size_bytes; ++i) data[i] = static_cast<char>(random.below(256));
    return {data, memory};
  }
};

inline PayloadPtr random_payload(RandomFields& random, uint32_t sources, MadeUpRegions* regions) {
  BulkSource bulk{random, regions};
  auto payload = std::make_shared<Payload>();
  random(payload->step, payload->bucket, payload->slot, payload->ordinals);
  payload->source = static_cast<uint32_t>(random.below(sources));
  for (size_t i = 0; i < payload->ordinals.size(); ++i) {
    if (i > 0 && random.below(3) == 0) {  // the same document again
      payload->spans.push_back(payload->spans.back());
      continue;
    }
    model::TokenSpan span;
    random(span.element);
    span.count = static_cast<uint32_t>(random.below(40));
    const auto data = bulk.make(span.count * model::element_bytes(span.element));
    const auto mask = bulk.make(span.count);
    if (random.below(4) > 0) span.data = data.first;
    if (random.below(2) > 0) span.mask = reinterpret_cast<const uint8_t*>(mask.first);
    payload->spans.push_back(span);
    payload->holders.push_back(data.second);
    payload->holders.push_back(mask.second);
  }
  for (auto* pieces : {&payload->media, &payload->encoded}) {
    for (uint64_t i = random.below(4); i > 0; --i) {
      auto piece = random.make<model::MediaPiece>();
      if (pieces == &payload->encoded || random.below(2) == 0) {
        piece.data.size_bytes = random.below(100);
        const auto data = bulk.make(piece.data.size_bytes);
        piece.data.data = data.first;
        payload->holders.push_back(data.second);
      }
      if (piece.data.data == nullptr) piece.packed.reset();
      pieces->push_back(piece);
    }
  }
  return payload;
}

// Any numbers, except that peers are in the group and orders in what they order.
inline std::shared_ptr<const model::EncoderPart> random_part(RandomFields& random) {
  auto part = std::make_shared<model::EncoderPart>(random.make<model::EncoderPart>());
  part->group = std::make_shared<const std::vector<Rank>>(std::vector<Rank>{1, 4, 9});
  for (auto* shares : {&part->sends, &part->receives_from}) {
    for (model::PeerShare& share : *shares) share.peer %= 3;
  }
  part->send_order.assign(2, static_cast<uint32_t>(part->samples.size() - 1));
  part->receive_order.assign(2, static_cast<uint32_t>(part->received.size() - 1));
  part->documents.resize(part->received.size());
  return part;
}

inline std::shared_ptr<const model::Slab> random_slab(RandomFields& random,
                                                      const model::MicrobatchCore& core,
                                                      MadeUpRegions* regions) {
  BulkSource bulk{random, regions};
  auto slab = std::make_shared<model::Slab>();
  slab->rows = static_cast<uint32_t>(random.below(4));
  slab->columns = static_cast<uint32_t>(random.below(16));
  const uint64_t elements = uint64_t{slab->rows} * slab->columns;
  const uint64_t token = core.token_type == model::TokenType::kUint16  ? 2
                         : core.token_type == model::TokenType::kInt32 ? 4
                                                                       : 8;
  const uint64_t weight = core.weight_type == model::WeightType::kUint8 ? 1 : 4;
  auto holders = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  const auto add = [&](model::FieldView& view, uint64_t width) {
    const auto [data, holder] = bulk.make(elements * width);
    view = {data, elements * width};
    holders->push_back(holder);
  };
  add(slab->tokens, token);
  add(slab->targets, token);
  add(slab->loss_weights, weight);
  add(slab->positions, 4);
  slab->holder = holders;
  return slab;
}

// Slabs of one microbatch: any shapes that fit together.
inline model::MediaSlabs random_media(RandomFields& random, size_t documents, bool seen,
                                      MadeUpRegions* regions) {
  if (documents == 0 || random.below(2) == 0) return nullptr;
  BulkSource bulk{random, regions};
  auto slabs = std::make_shared<std::vector<model::MediaSlab>>();
  for (uint64_t i = 1 + random.below(2); i > 0; --i) {
    model::MediaSlab& slab = slabs->emplace_back();
    random(slab.layout.name);
    slab.layout.element = random.below(2) == 0 ? model::Element::kU8 : model::Element::kF32;
    slab.layout.row_shape = {1 + static_cast<uint32_t>(random.below(5)), 3};
    for (uint64_t j = random.below(3); j > 0; --j) {
      auto item = random.make<model::MediaItem>();
      item.document %= static_cast<uint32_t>(documents);
      item.row_begin = slab.rows;
      item.shape.rows = static_cast<uint32_t>(random.below(4));
      slab.rows += item.shape.rows;
      slab.items.push_back(item);
    }
    if (!seen) continue;
    slab.data.size_bytes = slab.rows * slab.layout.row_bytes();
    const auto [data, holder] = bulk.make(slab.data.size_bytes);
    slab.data.data = data;
    slab.holder = holder;
  }
  return slabs;
}

inline StepReady random_step(RandomFields& random, model::PlanPtr plan, MadeUpRegions* regions) {
  StepReady step{plan->step, plan, {}};
  std::shared_ptr<const model::MicrobatchCore> core;
  std::shared_ptr<const model::Slab> slab;
  const uint64_t count = random.below(5);
  for (uint64_t i = 0; i < count; ++i) {
    if (!core || random.below(3) > 0) {
      auto fresh = std::make_shared<model::MicrobatchCore>(random.make<model::MicrobatchCore>());
      fresh->boundaries.cu_seqlens_padded.resize(fresh->boundaries.cu_seqlens.size());
      fresh->hdp_bin = 0;  // the plan of the step has no slices
      core = std::move(fresh);
      slab = random_slab(random, *core, regions);
    }
    auto batch = std::make_shared<model::Microbatch>();
    batch->core = core;
    batch->view = random_views(random, {})->by_rank.front();
    if (batch->view.fields & model::kPayloadFields) batch->slab = slab;
    random(batch->digest);
    if (random.below(2) == 0) batch->encoder = random_part(random);
    const bool seen = (batch->view.fields & model::kFieldTokens) != 0;
    batch->media = random_media(random, core->lineage.size(), seen, regions);
    if (batch->encoder) {
      batch->encoded = random_media(random, batch->encoder->samples.size(), true, regions);
    }
    step.microbatches.push_back(std::move(batch));
  }
  return step;
}

inline MetaPosted random_window(RandomFields& random, uint32_t sources) {
  auto window = std::make_shared<model::MetaWindow>(random.make<model::MetaWindow>());
  window->first.source %= sources;
  window->span_ends.clear();
  window->spans.clear();
  const bool masked = random.below(2) == 1;
  for (size_t row = 0; row < window->tokens.size() && masked; ++row) {
    for (uint64_t i = random.below(3); i > 0; --i) {
      window->spans.push_back(random.make<model::LossSpan>());
    }
    window->span_ends.push_back(static_cast<uint32_t>(window->spans.size()));
  }
  std::vector<uint32_t>& groups = window->group_ends;
  groups.assign(random.below(2) * window->tokens.size(), 0);
  for (size_t row = groups.size(); row-- > 0;) {
    const bool goes_on = row + 1 < groups.size() && random.below(2) == 1;
    groups[row] = goes_on ? groups[row + 1] : static_cast<uint32_t>(row + 1);
  }
  for (model::MetaColumn& column : window->columns) column.values.resize(window->tokens.size());
  for (model::BadRow& bad : window->bad) bad.index %= window->tokens.size();
  return {1, std::move(window)};
}

inline Report random_report(RandomFields& random) {
  Report report;
  random(report.part.step, report.part.weights);
  for (SourceIndex s = 0; s < 6; ++s) {
    if (random.below(3) == 0) continue;
    report.part.losses.push_back({s, random.make<int64_t>(), random.number()});
  }
  return report;
}

inline PlanPublished random_publication(uint64_t seed, const PlanShape& shape,
                                        const std::shared_ptr<const model::ViewTable>& views) {
  RandomFields random(seed);
  model::PlanPtr plan = random_plan(seed, shape, views);
  auto index = model::PlanIndex::make(*plan, shape.sources);
  for (model::BucketIndex& bucket : index->buckets) {
    uint32_t slot = 0;
    for (uint64_t i = 1 + random.below(3); i > 0; --i) {
      bucket.readers.push_back({2, slot});
      slot += 1 + static_cast<uint32_t>(random.below(4));
    }
  }
  return {std::move(plan), std::move(index)};
}

inline RowsPlanned random_rows(RandomFields& random) {
  auto rows = std::make_shared<model::SlotRows>(random.make<model::SlotRows>());
  rows->buckets.clear();
  const auto some = [&](size_t most) { return static_cast<uint32_t>(random.below(most + 1)); };
  for (uint64_t i = random.below(3); i > 0; --i) {
    rows->buckets.push_back({static_cast<uint32_t>(2 * rows->buckets.size()),
                             some(rows->rows.size()), some(rows->encoded.size())});
    if (rows->buckets.size() < 2) continue;
    model::BucketRows& last = rows->buckets.back();
    const model::BucketRows& before = rows->buckets[rows->buckets.size() - 2];
    last.rows_end = std::max(last.rows_end, before.rows_end);
    last.encoded_end = std::max(last.encoded_end, before.encoded_end);
  }
  rows->rows.resize(rows->buckets.empty() ? 0 : rows->buckets.back().rows_end);
  rows->encoded.resize(rows->buckets.empty() ? 0 : rows->buckets.back().encoded_end);
  return {std::move(rows)};
}

inline CalloutAsked random_question(RandomFields& random) {
  auto request = std::make_shared<model::CalloutRequest>(random.make<model::CalloutRequest>());
  const size_t samples = request->samples.size();
  for (model::MetaColumn& column : request->columns) column.values.resize(samples, 1);
  for (uint32_t& end : request->bin_ends) end %= static_cast<uint32_t>(samples + 1);
  std::sort(request->bin_ends.begin(), request->bin_ends.end());
  if (request->bin_ends.empty()) request->bin_ends.push_back(0);
  request->bin_ends.back() = static_cast<uint32_t>(samples);
  request->sample_costs.resize(random.below(2) * samples, 2);
  request->bin_costs.resize(random.below(2) * request->bin_ends.size(), 3);
  return {random.number(), std::move(request)};
}

// One envelope of the given kind. What decodes it is `context`.
struct MadeUpWorld {
  PlanShape shape;
  MadeUpRegions regions;
  std::shared_ptr<const model::ViewTable> views;
  DecodeContext context;

  explicit MadeUpWorld(uint64_t seed, bool shared_memory) {
    RandomFields random(seed);
    shape.uneven = random.below(2) == 1;
    views = random_views(random, shape);
    context.plans = {{views}, shape.sources};
    if (shared_memory) context.regions = &regions;
  }

  Message message(uint64_t seed, size_t kind) {
    RandomFields random(seed);
    MadeUpRegions* shared = context.regions != nullptr ? &regions : nullptr;
    switch (kind) {
      case 0:
        return random.make<MetaGrant>();
      case 1:
        return random_window(random, shape.sources);
      case 2:
        return random_publication(seed, shape, views);
      case 3:
        return random.make<Fetch>();
      case 4:
        return random_payload(random, shape.sources, shared);
      case 5:
        return random.make<Get>();
      case 6:
        return random_step(random, random_plan(seed, shape, views), shared);
      case 7:
        return random.make<Acknowledged>();
      case 8:
        return random.make<StreamFailed>();
      case 9:
        return random.make<LateBad>();
      case 10:
        return random_report(random);
      case 11:
        return random.make<ReportAnswered>();
      case 12:
        return random.make<PeerRestarted>();
      case 13:
        return TermOpened{};
      case 14:
        return random.make<TermPromised>();
      case 15:
        return random.make<SlotsWished>();
      case 16:
        return random.make<LoadTold>();
      case 17:
        return random_rows(random);
      case 18:
        return random_question(random);
      default:
        return random.make<CalloutTold>();
    }
  }

  Envelope envelope(uint64_t seed, size_t kind) {
    RandomFields random(seed);
    Envelope envelope;
    random(envelope.versions, envelope.from, envelope.to);
    envelope.message = message(seed, kind);
    return envelope;
  }
};

}  // namespace overlord::protocol
