// Plans as bytes: all that a plan says, or what the receiver needs of it. Segments travel as rows
// of 32 bytes, so decoding a step of 300,000 is one copy and one check (plan_codec_benchmark.cc).
//
// The hashes travel with the plan: a whole plan that was decoded must hash to its own `plan_hash`
// again, so every field that a hash covers must be carried (plan_fields.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/plan.h"

namespace overlord::protocol {

inline constexpr uint32_t kPlanCodecFormat = 3;
// Seats (buckets x microbatches x bins of one) of a layer that came from outside; whoever builds an
// index allocates this many.
inline constexpr uint64_t kMaxSeats = uint64_t{1} << 22;

// Tables of views are large and hardly ever change: each is sent once, plans name it.
std::string encode_views(const model::ViewTable& views);
Result<std::shared_ptr<const model::ViewTable>> decode_views(std::string_view bytes);

// What a receiver knows of the job whose plans it gets.
struct PlanContext {
  std::vector<std::shared_ptr<const model::ViewTable>> views;
  uint32_t sources = 0;
};

std::string encode_plan(const model::Plan& plan);
// kVersionMismatch: another format, or a table of views that is not known here; kBadData: bytes
// from which no plan index can be built.
Result<model::PlanPtr> decode_plan(std::string_view bytes, const PlanContext& context);

// What others than the planner need of a plan. Hashes and totals stay, so they are those of the
// whole plan and do not follow from what is left.
//
// A client, which is told of no bin: its own come as a batch.
model::Plan plan_for_clients(const model::Plan& plan);
// The constructor of a bucket: its bins, in their order, so that ordinals of the bucket's segments
// stay; neither state nor reports, which it has no use for. Layers whose consumers are not the
// first layer's stay whole.
model::Plan plan_for_bucket(const model::Plan& plan, uint32_t bucket);

}  // namespace overlord::protocol
