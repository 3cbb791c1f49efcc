// Binds model/plan_index.h: what one loader and one constructor do with a plan.
#include "overlord/model/plan_index.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <tuple>

#include "bindings.h"
#include "errors.h"
#include "owned_array.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

using model::Plan;
using model::PlanIndex;
using model::Segment;

void check_below(const char* what, uint64_t value, uint64_t count) {
  if (value < count) return;
  raise(Status(Code::kOutOfRange, std::string(what) + " " + std::to_string(value) +
                                      " is not in this plan; allowed: 0 to " +
                                      std::to_string(count - 1)));
}

struct SegmentColumns {
  std::vector<int64_t> ordinal, source, pass, position, first, count;

  void add(uint32_t number, const Segment& segment) {
    ordinal.push_back(number);
    source.push_back(segment.id.source);
    pass.push_back(segment.id.pass);
    position.push_back(static_cast<int64_t>(segment.id.position));
    first.push_back(segment.first);
    count.push_back(segment.count);
  }
  void write(nb::dict* out) {
    (*out)["ordinal"] = owned_array(std::move(ordinal));
    (*out)["source"] = owned_array(std::move(source));
    (*out)["pass"] = owned_array(std::move(pass));
    (*out)["position"] = owned_array(std::move(position));
    (*out)["first"] = owned_array(std::move(first));
    (*out)["count"] = owned_array(std::move(count));
  }
};

// Per bucket, what one source has to give it, as its files are read: by pass, position, token.
nb::list loader_do_plan(const Plan& plan, uint32_t source) {
  const auto sources = static_cast<uint32_t>(plan.served.size());
  check_below("source", source, sources);
  const auto index = PlanIndex::make(plan, sources);
  const std::vector<Segment>& segments = plan.layers.front().segments;
  nb::list out;
  for (const model::BucketIndex& bucket : index->buckets) {
    std::vector<uint32_t> queue;
    for (uint32_t ordinal = 0; ordinal < bucket.segments.size(); ++ordinal) {
      if (segments[bucket.segments[ordinal]].id.source == source) queue.push_back(ordinal);
    }
    std::sort(queue.begin(), queue.end(), [&](uint32_t a, uint32_t b) {
      const Segment& left = segments[bucket.segments[a]];
      const Segment& right = segments[bucket.segments[b]];
      return std::tie(left.id.pass, left.id.position, left.first) <
             std::tie(right.id.pass, right.id.position, right.first);
    });
    SegmentColumns columns;
    for (const uint32_t ordinal : queue) columns.add(ordinal, segments[bucket.segments[ordinal]]);
    nb::dict row;
    columns.write(&row);
    out.append(row);
  }
  return out;
}

// The segments of one bucket in the order in which its batches are laid out.
nb::dict constructor_do_plan(const Plan& plan, uint32_t bucket) {
  const model::Layer& layer = plan.layers.front();
  check_below("bucket", bucket, layer.buckets);
  const auto index = PlanIndex::make(plan, static_cast<uint32_t>(plan.served.size()));
  const model::BucketIndex& own = index->buckets[bucket];
  SegmentColumns columns;
  std::vector<int64_t> microbatch, slot, offset, capacities;
  uint32_t ordinal = 0;
  for (uint32_t row = 0; row < own.row_ends.size(); ++row) {
    int64_t filled = 0;
    for (; ordinal < own.row_ends[row]; ++ordinal) {
      const Segment& segment = layer.segments[own.segments[ordinal]];
      columns.add(ordinal, segment);
      microbatch.push_back(row / layer.microbatch_size);
      slot.push_back(row % layer.microbatch_size);
      offset.push_back(filled);
      filled += segment.count;
    }
    capacities.push_back(own.capacities.empty() ? layer.bin_capacity : own.capacities[row]);
  }
  nb::dict out;
  columns.write(&out);
  out["microbatch"] = owned_array(std::move(microbatch));
  out["slot"] = owned_array(std::move(slot));
  out["tokens_before"] = owned_array(std::move(offset));
  out["capacities"] = owned_array(std::move(capacities));
  out["microbatches"] = layer.microbatches_of(bucket);
  out["microbatch_size"] = layer.microbatch_size;
  return out;
}

}  // namespace

void bind_plan_index(nb::module_& m) {
  m.def("loader_do_plan", &loader_do_plan, nb::arg("plan"), nb::arg("source"),
        "Per bucket: the segments of one source in reading order.");
  m.def("constructor_do_plan", &constructor_do_plan, nb::arg("plan"), nb::arg("bucket"),
        "The segments of one bucket in the order of its rows.");
}

}  // namespace overlord::python
