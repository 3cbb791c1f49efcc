// PipelineSearch: a better order of microbatches by swapping two or moving one, see
// pipeline_order.h.
//
// The makespan of an order is the longest of all chains of runs, and which chains there are does
// not depend on the order. So the chains that were critical for orders seen so far are kept, with
// what each costs now: a change that leaves one of them too long need not be tried. Nearly all
// changes fall to the critical chain of the order at hand, which takes one multiplication.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/plan/pipeline/pipeline_order.h"
#include "overlord/plan/pipeline/pipeline_schedule.h"

namespace overlord::plan {

class PipelineSearch {
 public:
  // `times`: of every microbatch. All must stay while the search is used.
  PipelineSearch(const PipelineSchedule& schedule, std::span<const int64_t> times,
                 const SearchLimits& limits);
  // Makes `order` the best order found and gives its makespan.
  int64_t improve(std::vector<uint32_t>* order);

 private:
  struct Change {
    uint32_t from = 0;
    uint32_t to = 0;
    bool swap = false;  // the microbatches of both places change places, or `from` moves to `to`
  };
  struct KnownChain {
    Chain counts;
    int64_t cost = 0;  // under the order at hand
  };

  void begin(std::span<const uint32_t> order);
  void descend();
  bool improve_from(uint32_t place);
  bool is_hopeless(const Change& change);
  bool try_change(const Change& change);
  void apply(const Change& change);
  void disturb(uint64_t round);
  void learn_chain(std::span<const int64_t> ends);
  int64_t cost_of(const Chain& counts) const;
  int64_t cost_change(const Chain& counts, const Change& change) const;
  int64_t one_place(const Chain& counts, uint32_t place, uint32_t instead) const;
  bool is_over() const { return operations_ >= limits_.operations; }
  bool is_done() const { return is_over() || current_ <= limits_.good_enough; }

  const PipelineSchedule& schedule_;
  const std::span<const int64_t> times_;  // by microbatch
  const SearchLimits limits_;
  const uint32_t places_;
  uint64_t operations_ = 0;

  std::vector<uint32_t> order_;  // at hand
  RunTimes place_times_;         // by place, of order_
  int64_t current_ = 0;          // its makespan
  std::vector<int64_t> ends_;    // and when its runs end
  std::vector<int64_t> trial_ends_;
  uint32_t trial_same_ = 0;  // elements of trial_ends_ that equal ends_

  std::vector<KnownChain> chains_;
  std::vector<uint32_t> usefulness_;  // chains, those first that ruled out changes lately
  uint32_t next_chain_ = 0;           // to be forgotten
  uint32_t critical_ = 0;             // a chain that is critical for the order at hand
};

}  // namespace overlord::plan
