// OVERLORD_CHECK: an invariant of ours that does not hold aborts the process, in release builds
// too. Never used for bad data or bad config: those are Status values.
#pragma once

namespace overlord {

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const char* message);

}  // namespace overlord

#define OVERLORD_CHECK(condition, message) \
  (static_cast<bool>(condition)            \
       ? static_cast<void>(0)              \
       : ::overlord::check_failed(#condition, __FILE__, __LINE__, message))
