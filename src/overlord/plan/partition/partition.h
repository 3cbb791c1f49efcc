// How many loaders a source gets, and how many workers each of them, from what sources cost in runs
// before: the three stages of the paper (cluster by cost; size; fit memory). Pure, over integers;
// sources that cost the same keep their order. docs/decisions/0060 says where it departs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/status.h"

namespace overlord::plan {

struct SourceLoad {  // what one source costs
  std::string name;
  uint64_t work_ns = 0;        // of a CPU, for one row
  uint64_t wait_ns = 0;        // for storage, for one row: workers hide it, cores do not
  uint64_t rows_per_step = 1;  // that a step draws of it
  uint64_t buffer_bytes = 0;   // decoded rows, of all its loaders together
  uint64_t state_bytes = 0;    // open files and positions, of every worker

  OVERLORD_FIELDS(name, work_ns, wait_ns, rows_per_step, buffer_bytes, state_bytes)
};

enum class SizeRule {
  kFill,   // cores go to whoever would be slowest, until there are none left
  kRatio,  // the paper's: as many times the cheapest cluster's worker as its rows cost
};

struct PartitionRoom {
  uint32_t cores = 1;            // of all hosts
  uint32_t taken_cores = 0;      // of them: by constructors and the planner
  uint64_t memory_bytes = 0;     // for loaders; 0: as much as they like
  uint64_t loader_bytes = 0;     // the most of one loader; 0: the same
  uint32_t cluster = 4;          // sources that are sized as one
  uint32_t source_workers = 64;  // the most of one source
  uint32_t loader_workers = 4;   // the most of one loader
  uint32_t processes = 1;        // that have cores of their own: loaders of a source reach all
  SizeRule rule = SizeRule::kFill;

  OVERLORD_FIELDS(cores, taken_cores, memory_bytes, loader_bytes, cluster, source_workers,
                  loader_workers, processes, rule)
};

enum class SizeReason {
  kCost,           // what it costs beside the others
  kLeast,          // nobody has fewer
  kRowsOfAStep,    // more workers than rows in a step would idle
  kSourceWorkers,  // the limit of a source
  kCores,          // there are no more
  kMemory,         // each of them must fit
};

struct LoaderSize {
  uint32_t loaders = 1;
  uint32_t workers = 1;  // of each
  uint32_t cluster = 0;  // 0: the dearest
  SizeReason reason = SizeReason::kLeast;
  uint64_t loader_bytes = 0;  // of the largest of its loaders

  OVERLORD_FIELDS(loaders, workers, cluster, reason, loader_bytes)
};

struct Partition {
  std::vector<LoaderSize> sizes;  // parallel to the sources
  uint32_t free_cores = 0;        // that loaders share
  uint64_t memory_bytes = 0;      // of all of them
  uint64_t step_ns = 0;           // that the slowest source takes for its rows of a step

  OVERLORD_FIELDS(sizes, free_cores, memory_bytes, step_ns)
};

// Fails where a source fits no loader, or all of them no memory, with the bytes of each.
Result<Partition> partition_sources(std::span<const SourceLoad> sources, const PartitionRoom& room);

}  // namespace overlord::plan
