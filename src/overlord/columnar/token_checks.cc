#include "overlord/columnar/token_checks.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "overlord/model/manifest.h"

namespace overlord::columnar {

uint64_t TokenBlock::size_bytes() const {
  return values.size + mask.size + begins.size() * sizeof(begins[0]) +
         counts.size() * sizeof(counts[0]) + text_bytes.size() * sizeof(uint32_t);
}

namespace {

// -O2 vectorises loops of known length only, hence the fixed inner one.
constexpr size_t kLanes = 64;

template <typename T>
struct Extremes {
  T least = std::numeric_limits<T>::max();
  T most = std::numeric_limits<T>::lowest();
};

template <typename T>
Extremes<T> extremes(const T* values, size_t count) {
  Extremes<T> found;
  size_t i = 0;
  if (count >= kLanes) {
    T least[kLanes], most[kLanes];
    for (size_t lane = 0; lane < kLanes; ++lane) least[lane] = most[lane] = values[lane];
    for (i = kLanes; i + kLanes <= count; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const T value = values[i + lane];
        least[lane] = value < least[lane] ? value : least[lane];
        most[lane] = value > most[lane] ? value : most[lane];
      }
    }
    for (size_t lane = 0; lane < kLanes; ++lane) {
      found.least = std::min(found.least, least[lane]);
      found.most = std::max(found.most, most[lane]);
    }
  }
  for (; i < count; ++i) {
    found.least = std::min(found.least, values[i]);
    found.most = std::max(found.most, values[i]);
  }
  return found;
}

template <typename T>
bool in_vocabulary(T value, uint64_t limit) {
  if constexpr (std::numeric_limits<T>::is_signed) {
    if (value < 0) return false;
  }
  return static_cast<uint64_t>(value) < limit;
}

template <typename T>
void check_typed(uint64_t limit, const RowNamer& name, TokenBlock* block) {
  const T* values = reinterpret_cast<const T*>(block->values.data);
  const size_t count = block->values.size / sizeof(T);
  if (count == 0) return;
  const Extremes<T> all = extremes(values, count);
  if (in_vocabulary(all.least, limit) && in_vocabulary(all.most, limit)) return;
  const size_t before = block->bad.size();
  for (size_t row = 0; row < block->rows(); ++row) {
    if (block->counts[row] == model::kBadRow) continue;
    const T* begin = values + block->begins[row];
    const T* end = begin + block->counts[row];
    const T* wrong = std::find_if(begin, end, [&](T v) { return !in_vocabulary(v, limit); });
    if (wrong == end) continue;
    const std::string what = "token id " + std::to_string(*wrong) + " at position " +
                             std::to_string(wrong - begin) + " is outside of the vocabulary of " +
                             std::to_string(limit);
    const auto index = static_cast<uint32_t>(row);
    block->bad.push_back({index, name(index, what)});
    block->counts[row] = model::kBadRow;
  }
  if (before == 0 || before == block->bad.size()) return;
  std::sort(block->bad.begin(), block->bad.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
}

}  // namespace

void check_token_ids(uint32_t vocabulary, const RowNamer& name, TokenBlock* block) {
  const uint64_t limit = vocabulary > 0 ? vocabulary : uint64_t{1} << 32;
  switch (block->element) {
    case Element::kU8:
      return check_typed<uint8_t>(limit, name, block);
    case Element::kI8:
      return check_typed<int8_t>(limit, name, block);
    case Element::kU16:
      return check_typed<uint16_t>(limit, name, block);
    case Element::kI16:
      return check_typed<int16_t>(limit, name, block);
    case Element::kU32:
      return check_typed<uint32_t>(limit, name, block);
    case Element::kI32:
      return check_typed<int32_t>(limit, name, block);
    case Element::kU64:
      return check_typed<uint64_t>(limit, name, block);
    case Element::kI64:
      return check_typed<int64_t>(limit, name, block);
    case Element::kF32:
    case Element::kF64:
      return;  // refused when the source is indexed
  }
}

void keep_wanted(const std::vector<uint32_t>& rows, TokenBlock* block) {
  if (rows.empty()) return;
  std::vector<bool> wanted(block->rows(), false);
  for (const uint32_t row : rows) wanted[row] = true;
  for (size_t row = 0; row < wanted.size(); ++row) {
    if (!wanted[row]) block->counts[row] = 0;
  }
  std::erase_if(block->bad, [&](const model::BadRow& bad) { return !wanted[bad.index]; });
}

}  // namespace overlord::columnar
