#include "overlord/plan/mix/meta_buffer.h"

#include <iterator>

#include "overlord/base/check.h"

namespace overlord::plan {

void MetaBuffer::post(MetaWindowPtr window) {
  const uint64_t rows = window->rows();
  if (rows == 0) return;
  for (const model::MetaColumn& column : window->columns) {
    OVERLORD_CHECK(column.values.size() == rows, "a column has a value for every row");
  }
  OVERLORD_CHECK(window->span_ends.empty() || window->span_ends.size() == rows,
                 "a masked window ends the spans of every row");
  const auto key = std::pair(window->first.pass, window->first.position);
  const auto [at, fresh] = windows_.try_emplace(key, std::move(window));
  if (!fresh) return;
  rows_ += rows;
  const auto after = std::next(at);
  OVERLORD_CHECK(after == windows_.end() || after->first.first != key.first ||
                     after->first.second - key.second >= rows,
                 "windows of a pass do not overlap");
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
    OVERLORD_CHECK(rows_ >= window.rows(), "what is forgotten was counted");
    rows_ -= window.rows();
    it = windows_.erase(it);
  }
  OVERLORD_CHECK(windows_.empty() == (rows_ == 0), "rows are those of the windows");
}

}  // namespace overlord::plan
