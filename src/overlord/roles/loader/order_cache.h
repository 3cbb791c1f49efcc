// OrderCache: a source's order of the passes in use, with the few windows whose rows are wanted
// now. On one loader's loop.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "overlord/plan/select/source_order.h"
#include "overlord/roles/loader/role.h"

namespace overlord::loader {

class OrderCache {
 public:
  explicit OrderCache(std::shared_ptr<const OpenSource> source) : source_(std::move(source)) {}

  struct Located {
    uint64_t window = 0;
    plan::RowRef ref;
  };

  plan::OrderWindow window(uint32_t pass, uint64_t window) { return order(pass).window(window); }
  // Kept: its samples are about to be asked for.
  std::shared_ptr<const std::vector<plan::RowRef>> rows(uint32_t pass, uint64_t window);
  // Not kept: metadata is posted long before its samples are planned, and most sources are idle.
  std::shared_ptr<const std::vector<plan::RowRef>> rows_once(uint32_t pass, uint64_t window);
  Located locate(uint32_t pass, uint64_t position);
  uint64_t memory_bytes() const;

 private:
  struct Expanded {
    uint32_t pass = 0;
    uint64_t window = 0;
    uint64_t first_position = 0;
    std::shared_ptr<const std::vector<plan::RowRef>> rows;
  };
  const plan::SourceOrder& order(uint32_t pass);
  const Expanded& expand(uint32_t pass, uint64_t window);

  std::shared_ptr<const OpenSource> source_;
  std::map<uint32_t, std::unique_ptr<plan::SourceOrder>> orders_;  // at most two passes
  std::list<Expanded> expanded_;                                   // most recently used first
};

}  // namespace overlord::loader
