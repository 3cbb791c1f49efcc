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

bool MetaBuffer::passed(const model::MetaWindow& window, uint32_t pass, uint64_t position) {
  return window.first.pass < pass ||
         (window.first.pass == pass && window.first.position + window.rows() <= position);
}

void MetaBuffer::trim(uint32_t pass, uint64_t position) {
  while (!windows_.empty() && passed(*windows_.begin()->second, pass, position)) {
    OVERLORD_CHECK(rows_ >= windows_.begin()->second->rows(), "what is put aside was counted");
    rows_ -= windows_.begin()->second->rows();
    aside_.insert(windows_.extract(windows_.begin()));
  }
  OVERLORD_CHECK(windows_.empty() == (rows_ == 0), "rows are those of the windows");
}

void MetaBuffer::forget(uint32_t pass, uint64_t position) {
  while (!aside_.empty() && passed(*aside_.begin()->second, pass, position)) {
    aside_.erase(aside_.begin());
  }
}

void MetaBuffer::take_back() {
  for (const auto& [key, window] : aside_) rows_ += window->rows();
  windows_.merge(aside_);
  OVERLORD_CHECK(aside_.empty(), "a window is put aside once");
}

}  // namespace overlord::plan
