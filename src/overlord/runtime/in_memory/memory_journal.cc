#include "overlord/runtime/in_memory/memory_journal.h"

#include <iterator>
#include <utility>

namespace overlord::runtime {

void MemoryJournal::append(std::string record, std::function<void(Status)> durable) {
  {
    std::lock_guard lock(mutex_);
    records_.push_back(std::move(record));
    if (records_.size() > keep_) records_.pop_front();
  }
  // Outside the lock: the callback may append again.
  durable(Status());
}

void MemoryJournal::compact(std::vector<std::string> records, std::function<void(Status)> durable) {
  {
    std::lock_guard lock(mutex_);
    records_.assign(std::make_move_iterator(records.begin()),
                    std::make_move_iterator(records.end()));
  }
  durable(Status());
}

std::vector<std::string> MemoryJournal::records() const {
  std::lock_guard lock(mutex_);
  return {records_.begin(), records_.end()};
}

}  // namespace overlord::runtime
