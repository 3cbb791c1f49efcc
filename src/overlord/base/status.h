// Status and Result<T>: how every fallible function in Overlord answers.
// Errors are values: nothing under src/overlord throws. Bindings turn a Code into a Python
// exception. A Status is cheap when ok (one pointer). Messages start with fixed text and end with
// values.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "overlord/base/check.h"

namespace overlord {

enum class Code {
  kOk,
  kInvalidArgument,  // the caller's config or call is wrong              -> ValueError
  kNotFound,         // a file, source, column or step does not exist     -> FileNotFoundError
  kOutOfRange,       // a position or step outside the valid range        -> IndexError
  kBadData,          // bytes that break their format                     -> ValueError
  kSourceChanged,    // a shard differs from the manifest                 -> RuntimeError
  kBudgetExceeded,   // more bad samples than a source allows             -> RuntimeError
  kStateMismatch,    // resume state does not fit config or manifest      -> ValueError
  kVersionMismatch,  // a message, plan or file of another version        -> ValueError
  kResource,         // memory, descriptors, disk                         -> OSError
  kUnavailable,      // a peer or store did not answer; may be retried    -> ConnectionError
  kDeadline,         // a progress deadline passed                        -> TimeoutError
  kCancelled,        // the caller asked to stop                          -> InterruptedError
  kUserFunction,     // a user's own function failed or answered nonsense -> RuntimeError
  kInternal,         // a bug of ours that was caught as a value          -> RuntimeError
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message)
      : rep_(code == Code::kOk ? nullptr
                               : std::make_shared<const Rep>(Rep{code, std::move(message)})) {}

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::kOk; }
  const std::string& message() const;
  // Prefix the message with where it happened, keeping the code.
  Status with_context(std::string_view where) const;

 private:
  struct Rep {
    Code code;
    std::string message;
  };
  std::shared_ptr<const Rep> rep_;
};

inline Status invalid_argument(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}
inline Status bad_data(std::string message) { return {Code::kBadData, std::move(message)}; }
inline Status not_found(std::string message) { return {Code::kNotFound, std::move(message)}; }
inline Status internal_error(std::string message) { return {Code::kInternal, std::move(message)}; }

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::in_place_index<0>, std::move(value)) {}        // NOLINT
  Result(Status status) : value_(std::in_place_index<1>, std::move(status)) {  // NOLINT
    OVERLORD_CHECK(!std::get<1>(value_).ok(), "Result built from an ok Status");
  }

  bool ok() const { return value_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(value_); }
  T& value() & {
    OVERLORD_CHECK(ok(), "value() of a failed Result");
    return std::get<0>(value_);
  }
  const T& value() const& {
    OVERLORD_CHECK(ok(), "value() of a failed Result");
    return std::get<0>(value_);
  }
  T&& value() && {
    OVERLORD_CHECK(ok(), "value() of a failed Result");
    return std::get<0>(std::move(value_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> value_;
};

}  // namespace overlord

#define OVERLORD_CONCAT_INNER(a, b) a##b
#define OVERLORD_CONCAT(a, b) OVERLORD_CONCAT_INNER(a, b)

// Return early when `expr` (a Status) is not ok.
#define OVERLORD_RETURN_IF_ERROR(expr)                   \
  do {                                                   \
    ::overlord::Status overlord_status_ = (expr);        \
    if (!overlord_status_.ok()) return overlord_status_; \
  } while (false)

// OVERLORD_TRY(auto x, expr): x = value of `expr` (a Result), or return its Status.
#define OVERLORD_TRY(decl, expr) \
  OVERLORD_TRY_INNER(OVERLORD_CONCAT(overlord_result_, __LINE__), decl, expr)
#define OVERLORD_TRY_INNER(result, decl, expr) \
  auto result = (expr);                        \
  if (!result.ok()) return result.status();    \
  decl = std::move(result).value()
