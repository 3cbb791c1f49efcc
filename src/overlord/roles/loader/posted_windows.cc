#include "overlord/roles/loader/posted_windows.h"

#include "overlord/base/check.h"

namespace overlord::loader {

void PostedWindows::keep(uint64_t sequence, const PostedWindow& window) {
  OVERLORD_CHECK(window != nullptr, "what is kept was posted");
  if (!windows_.emplace(sequence, window).second) return;  // the same, whoever asked
  rows_ += window->rows();
  while (rows_ > most_rows_ && windows_.size() > 1) {
    rows_ -= windows_.begin()->second->rows();
    windows_.erase(windows_.begin());
  }
}

PostedWindow PostedWindows::find(uint64_t sequence) const {
  const auto found = windows_.find(sequence);
  return found == windows_.end() ? nullptr : found->second;
}

}  // namespace overlord::loader
