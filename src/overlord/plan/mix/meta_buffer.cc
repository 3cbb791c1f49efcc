#include "overlord/plan/meta_buffer.h"

#include <iterator>

namespace overlord::plan {

void MetaBuffer::post(MetaWindowPtr window) {
  const uint64_t rows = window->rows();
  if (rows == 0) return;
  const auto key = std::pair(window->first.pass, window->first.position);
  if (windows_.try_emplace(key, std::move(window)).second) rows_ += rows;
}

const model::MetaWindow* MetaBuffer::find(uint32_t pass, uint64_t position) const {
  const auto after = windows_.upper_bound({pass, position});
  if (after == windows_.begin()) return nullptr;
  const model::MetaWindow& window = *std::prev(after)->second;
  if (window.first.pass != pass || position - window.first.position >= window.rows())
    return nullptr;
  return &window;
}

void MetaBuffer::trim(uint32_t pass, uint64_t position) {
  for (auto it = windows_.begin(); it != windows_.end();) {
    const model::MetaWindow& window = *it->second;
    const bool passed =
        window.first.pass < pass ||
        (window.first.pass == pass && window.first.position + window.rows() <= position);
    if (!passed) break;
    rows_ -= window.rows();
    it = windows_.erase(it);
  }
}

}  // namespace overlord::plan
