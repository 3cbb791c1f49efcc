// What changed between two states, in few bytes: most of a state is as it was a step before, or
// moved as it did then. zstd with the state before as its prefix, so a part that lies elsewhere now
// costs little too.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "overlord/base/status.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace overlord::protocol {

// Of the steps before a difference.
struct StatesBefore {
  std::string_view last;
  std::string_view earlier = {};  // one step before `last`; empty: nobody knows
};

// Keeps its working memory from call to call; one caller at a time.
class StateDifferences {
 public:
  StateDifferences();
  ~StateDifferences();
  StateDifferences(StateDifferences&&) noexcept;
  StateDifferences& operator=(StateDifferences&&) noexcept;

  std::string difference(const StatesBefore& before, std::string_view after);
  // The state after. kBadData: the difference is damaged, or not to `before`, or to a state of more
  // than `limit` bytes. Nothing is allocated for it before that is known.
  Result<std::string> apply_difference(const StatesBefore& before, std::string_view difference,
                                       size_t limit);

 private:
  struct Free {
    void operator()(ZSTD_CCtx_s* context) const;
    void operator()(ZSTD_DCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, Free> writing_;
  std::unique_ptr<ZSTD_DCtx_s, Free> reading_;
};

}  // namespace overlord::protocol
