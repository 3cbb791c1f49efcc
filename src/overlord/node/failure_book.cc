#include "overlord/node/failure_book.h"

#include <algorithm>

namespace overlord::node {

void FailureBook::told(const std::vector<Rank>& ranks) {
  for (const Rank rank : ranks) untold_.erase(rank);
}

std::optional<Status> FailureBook::tell(const std::vector<Rank>& ranks, uint32_t attempt) {
  const bool awaited =
      std::any_of(ranks.begin(), ranks.end(), [this](Rank rank) { return untold_.contains(rank); });
  if (attempt > attempt_ || !awaited) return std::nullopt;
  told(ranks);
  return why_;
}

}  // namespace overlord::node
