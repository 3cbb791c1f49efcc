// MadeUpPlanner: plans steps of a job over made-up metadata, without any data behind them:
// selection, placement, report, views and hashes, as the planner role makes them. For benchmarks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "overlord/plan/place/place_tree.h"
#include "overlord/plan/select/step_selector.h"

namespace overlord::bench {

// CPU time of this thread.
int64_t thread_cpu_ns();

// A job of so many sources, of weights 1 to 1/16.
model::JobSpec made_up_job(uint32_t sources, uint32_t context, uint32_t bins,
                           const model::Strategy& strategy);

// Every source reads the same lengths, each from another place.
class MadeUpSources {
 public:
  MadeUpSources(std::span<const uint32_t> lengths, uint32_t sources);

  std::span<const plan::MetaBuffer> buffers() const { return buffers_; }
  void post_wanted();
  void want_more();  // more than was thought
  // So much that the first window and the one after it find all they need: what is selected while
  // nobody looks at the clock would not be counted.
  void want_at_start(const model::JobSpec& spec);
  // As the planner role does: what was drawn since the last call may be drawn again, once by the
  // step or window that comes and once by the one after it.
  void want_as_drawn(const model::StreamState& state);
  uint64_t rows() const;
  void trim(const model::StreamState& state);

 private:
  void post(SourceIndex source);

  std::span<const uint32_t> lengths_;
  std::vector<uint64_t> posted_;
  std::vector<uint64_t> wanted_;  // rows to keep posted
  std::vector<uint64_t> samples_before_;
  std::vector<plan::MetaBuffer> buffers_;
};

// What a planner holds when a plan is made, by what frees it.
struct HeldBytes {
  int64_t metadata = 0;   // posted rows
  int64_t selection = 0;  // steps of windows, and scratch that is kept from step to step
  int64_t plan = 0;
  int64_t graph = 0;  // as long as somebody explains or draws it
};

struct Planned {
  std::vector<double> milliseconds;
  std::vector<double> step_ms, arrival_ms;
  uint64_t samples = 0;
  uint64_t carried = 0;
  uint64_t posted_rows = 0;
  HeldBytes held;
};

// Plans steps of a job one after another; destroyed part by part to see what each holds.
class MadeUpPlanner {
 public:
  MadeUpPlanner(const model::JobSpec& spec, const model::Mesh& mesh,
                const model::DeliverySpec& delivery, std::span<const uint32_t> lengths);

  // `explain`: the graph behind the plan is kept.
  Status plan_next(bool explain, Planned* out);
  const std::optional<model::Plan>& plan() const { return plan_; }  // the last one
  void tell_held(Planned* out);

 private:
  const model::JobSpec& spec_;
  const model::Mesh& mesh_;
  const model::DeliverySpec& delivery_;
  std::vector<uint64_t> rows_;
  model::StreamState state_;
  std::shared_ptr<const model::ViewTable> views_;
  std::optional<MadeUpSources> sources_;
  std::optional<plan::StepSelector> selector_;
  std::optional<plan::Placer> placer_;
  std::optional<model::Plan> plan_;
  std::shared_ptr<const plan::DGraph> graph_;
};

}  // namespace overlord::bench
