// The fields of a plan, in the order in which they travel (see field_codec.h). A new field of
// model::Plan or model::Layer is named in the binding and in the call here, and kPlanCodecFormat
// (plan_codec.h) is raised.
#pragma once

#include <memory>
#include <string>

#include "overlord/model/exchange.h"
#include "overlord/model/hdp_layer.h"
#include "overlord/model/plan.h"
#include "overlord/protocol/fields/field_codec.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::protocol {

template <>
struct Fields<model::ViewTable> {
  static void list(auto& codec, auto& value) {
    // Who runs an encoder is known to those who know the strategy, and needed by nobody else.
    auto& [tree_version, slicing, by_rank, digest, encoder] = value;
    codec(tree_version, slicing, by_rank, digest);
    static_cast<void>(encoder);
  }
};

// Its own codec, which saved states use too, inside this one.
template <>
struct Fields<model::StreamState> {
  template <typename Codec>
  static void list(Codec& codec, auto& value) {
    if constexpr (kIsWriter<Codec>) {
      codec.bytes().text(encode_stream_state(value));
    } else if constexpr (kIsReader<Codec>) {
      const std::string_view bytes = codec.bytes().text();
      auto state = decode_stream_state(bytes);
      // Saved states are guarded by a checksum, so their codec does not ask for one encoding.
      if (!state.ok() || encode_stream_state(*state) != bytes) return codec.refuse();
      value = std::move(state).value();
    }
  }
};

// A table of views stands in a plan as its version and digest; the reader puts an empty table of
// that name there, and decode_plan the one that it knows.
template <typename Codec>
void list_views(Codec& codec, auto& views) {
  model::ViewTable name;
  bool present = views != nullptr;
  if constexpr (kIsWriter<Codec>) {
    if (present) name = {views->tree_version, {}, {}, views->digest, nullptr};
  }
  codec(present);
  if (!present) return;
  codec(name.tree_version, name.digest);
  if constexpr (kIsReader<Codec>) views = std::make_shared<const model::ViewTable>(name);
}

template <>
struct Fields<model::EncoderPlan> {
  static void list(auto& codec, auto& value) {
    // The table is the views' own: decode_plan puts it there.
    auto& [backbone_of, backbone_segment, dummies, exchanges, bytes_per_unit, table] = value;
    codec(backbone_of, backbone_segment, dummies, exchanges, bytes_per_unit);
    static_cast<void>(table);
  }
};

template <>
struct Fields<model::Layer> {
  static void list(auto& codec, auto& value) {
    auto& [module, axis, buckets, microbatches, microbatch_size, bin_capacity, segments, bin_ends,
           placements, capacities, views, report, further_reports, encoder, hdp,
           bucket_microbatches] = value;
    codec(module, axis, buckets, microbatches, microbatch_size, bin_capacity);
    codec(segments, bin_ends, placements, capacities);
    list_views(codec, views);
    codec(report, further_reports, encoder, hdp, bucket_microbatches);
  }
};

}  // namespace overlord::protocol
