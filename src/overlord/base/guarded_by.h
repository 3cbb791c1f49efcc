// Which lock guards what, told to clang's thread-safety analysis (`make clang-check`); other
// compilers read nothing here. The analysis knows std::mutex and std::lock_guard by clang's own
// standard library.
#pragma once

#if defined(__clang__)
#define OVERLORD_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define OVERLORD_THREAD_ATTRIBUTE(x)
#endif

// A member that is read and written under this lock alone.
#define OVERLORD_GUARDED_BY(lock) OVERLORD_THREAD_ATTRIBUTE(guarded_by(lock))
// A function that is called with this lock held, a predicate of a condition variable among them.
#define OVERLORD_REQUIRES(...) OVERLORD_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
// What the analysis cannot follow; a comment says why it is right.
#define OVERLORD_UNCHECKED_LOCKS OVERLORD_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace overlord {

// A std::unique_lock on this lock was just taken: the analysis does not know that type.
template <typename Mutex>
inline void is_held(const Mutex& lock) OVERLORD_THREAD_ATTRIBUTE(assert_capability(lock)) {
  static_cast<void>(lock);
}

}  // namespace overlord
