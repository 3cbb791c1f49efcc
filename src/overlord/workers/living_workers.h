// LivingWorkers: the processes that some pool has running now, so that others can ask what they
// weigh. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <set>

#include "overlord/base/guarded_by.h"

namespace overlord::workers {

// Resident memory of a process; 0 where it has ended.
uint64_t resident_bytes(pid_t pid);

class LivingWorkers {
 public:
  void add(pid_t pid);
  void remove(pid_t pid);           // before it is reaped: its number may be another's then
  uint64_t resident_bytes() const;  // of all of them; shared pages are counted for each

 private:
  mutable std::mutex mutex_;
  std::set<pid_t> pids_ OVERLORD_GUARDED_BY(mutex_);
};

}  // namespace overlord::workers
