#include "overlord/roles/keeper/failure_book.h"

#include <algorithm>

namespace overlord::keeper {

void FailureBook::told(const std::vector<Rank>& ranks) {
  for (const Rank rank : ranks) untold_.erase(rank);
}

bool FailureBook::awaited_by(const std::vector<Rank>& ranks, uint32_t attempt) const {
  return attempt <= attempt_ && std::any_of(ranks.begin(), ranks.end(),
                                            [this](Rank rank) { return untold_.contains(rank); });
}

std::optional<Status> FailureBook::tell(const std::vector<Rank>& ranks, uint32_t attempt) {
  if (!awaited_by(ranks, attempt)) return std::nullopt;
  told(ranks);
  return why_;
}

}  // namespace overlord::keeper
