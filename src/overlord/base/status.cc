#include "overlord/base/status.h"

#include <cstdio>
#include <cstdlib>

namespace overlord {

void check_failed(const char* condition, const char* file, int line, const char* message) {
  std::fprintf(stderr, "overlord: broken invariant at %s:%d: %s (%s)\n", file, line, message,
               condition);
  std::fflush(stderr);
  std::abort();
}

const std::string& Status::message() const {
  static const std::string empty;
  return rep_ ? rep_->message : empty;
}

Status Status::with_context(std::string_view where) const {
  if (ok()) return *this;
  return {rep_->code, std::string(where) + ": " + rep_->message};
}

}  // namespace overlord
