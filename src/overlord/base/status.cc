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

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kNotFound:
      return "not found";
    case Code::kOutOfRange:
      return "out of range";
    case Code::kBadData:
      return "bad data";
    case Code::kSourceChanged:
      return "source changed";
    case Code::kBudgetExceeded:
      return "budget exceeded";
    case Code::kStateMismatch:
      return "state mismatch";
    case Code::kVersionMismatch:
      return "version mismatch";
    case Code::kResource:
      return "resource";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kDeadline:
      return "deadline";
    case Code::kCancelled:
      return "cancelled";
    case Code::kUserFunction:
      return "user function";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
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
