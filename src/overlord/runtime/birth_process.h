// BirthProcess: where something was made. A forked child has the memory of what owns threads and
// none of the threads: nothing can be joined or unlocked there, so it is left to the process's end.
#pragma once

#include <unistd.h>

#include <memory>

namespace overlord::runtime {

class BirthProcess {
 public:
  bool here() const { return process_ == getpid(); }

 private:
  pid_t process_ = getpid();
};

template <typename T>
struct DeleteAtBirthplace {
  DeleteAtBirthplace() = default;
  DeleteAtBirthplace(std::default_delete<T>) {}  // NOLINT: made by make_unique
  void operator()(T* owned) const {
    if (process.here()) delete owned;
  }
  BirthProcess process;
};

// Deleted by the process that made it alone.
template <typename T>
using LeftInForks = std::unique_ptr<T, DeleteAtBirthplace<T>>;

}  // namespace overlord::runtime
