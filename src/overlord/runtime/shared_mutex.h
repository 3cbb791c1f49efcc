// SharedMutex: many readers or one writer, for what is looked up on every message and changes a few
// times in a run. Rooms above this one lock through it and nothing else.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace overlord::runtime {

using SharedMutex = std::shared_mutex;
using ReadLock = std::shared_lock<SharedMutex>;
using WriteLock = std::unique_lock<SharedMutex>;

}  // namespace overlord::runtime
