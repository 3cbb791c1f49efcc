// FailureBook: why an attempt of the ranks cannot be served, and which of them have been told. A
// failure is told to each rank of its attempt once: a rank that comes again, or one of a later
// attempt, belongs to another try, which may fare better. A value of the keeper's state.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "overlord/base/ids.h"
#include "overlord/base/status.h"

namespace overlord::keeper {

class FailureBook {
 public:
  FailureBook(Status why, uint32_t attempt, const std::vector<Rank>& expected)
      : why_(std::move(why)), attempt_(attempt), untold_(expected.begin(), expected.end()) {}

  const Status& why() const { return why_; }
  uint32_t attempt() const { return attempt_; }
  bool all_told() const { return untold_.empty(); }
  std::vector<Rank> untold() const { return {untold_.begin(), untold_.end()}; }
  // Some of these belong to its attempt and do not know it.
  bool awaited_by(const std::vector<Rank>& ranks, uint32_t attempt) const;
  // These know it.
  void told(const std::vector<Rank>& ranks);
  // What to tell these; nothing: they are of another try.
  std::optional<Status> tell(const std::vector<Rank>& ranks, uint32_t attempt);

 private:
  Status why_;
  uint32_t attempt_;
  std::set<Rank> untold_;
};

}  // namespace overlord::keeper
