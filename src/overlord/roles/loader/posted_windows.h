// PostedWindows: metadata that took reading and tokenising to make, for a planner that comes after
// one that has died and asks for it again. Windows that come from the index are not worth keeping.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "overlord/model/sample_meta.h"

namespace overlord::loader {

using PostedWindow = std::shared_ptr<const model::MetaWindow>;

class PostedWindows {
 public:
  // The newest stay, as many as have `rows` together, and the last one always. A row is four bytes,
  // and more where a source has columns or masks.
  explicit PostedWindows(uint64_t rows = 1 << 15) : most_rows_(rows) {}

  void keep(uint64_t sequence, const PostedWindow& window);
  PostedWindow find(uint64_t sequence) const;  // null: it is not kept

 private:
  const uint64_t most_rows_;
  uint64_t rows_ = 0;
  std::map<uint64_t, PostedWindow> windows_;  // by number in the source's endless sequence
};

}  // namespace overlord::loader
