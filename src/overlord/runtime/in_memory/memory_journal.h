// MemoryJournal: the Journal of engines that keep no files (embedded without a journal,
// simulation). Every record is durable at once: `durable` runs inside append(). Bounded: only the
// newest `keep` records stay, so a run of any length holds the same memory.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/runtime/seams.h"

namespace overlord::runtime {

class MemoryJournal final : public Journal {
 public:
  explicit MemoryJournal(size_t keep = std::numeric_limits<size_t>::max()) : keep_(keep) {}

  void append(std::string record, std::function<void(Status)> durable) override;
  void compact(std::vector<std::string> records, std::function<void(Status)> durable) override;
  std::vector<std::string> records() const;

 private:
  mutable std::mutex mutex_;
  const size_t keep_;
  std::deque<std::string> records_ OVERLORD_GUARDED_BY(mutex_);
};

}  // namespace overlord::runtime
