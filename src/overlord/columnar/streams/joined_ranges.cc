#include "overlord/columnar/streams/joined_ranges.h"

#include <algorithm>

#include "overlord/base/check.h"

namespace overlord::columnar {
namespace {

constexpr uint64_t kJoinedGapBytes = 32 << 10;  // cheaper to read than to ask for twice

}  // namespace

void JoinedRanges::want(uint64_t offset, uint64_t size_bytes) {
  if (size_bytes > 0) ranges_.push_back({shard_, offset, size_bytes});
}

const std::vector<RangeRequest>& JoinedRanges::ranges() {
  if (joined_) return ranges_;
  joined_ = true;
  std::sort(ranges_.begin(), ranges_.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  std::vector<RangeRequest> joined;
  for (const RangeRequest& range : ranges_) {
    if (!joined.empty()) {
      RangeRequest& last = joined.back();
      const uint64_t last_end = last.offset + last.size_bytes;
      if (range.offset <= last_end + kJoinedGapBytes) {
        last.size_bytes = std::max(last_end, range.offset + range.size_bytes) - last.offset;
        continue;
      }
    }
    joined.push_back(range);
  }
  ranges_ = std::move(joined);
  return ranges_;
}

std::string_view JoinedRanges::find(const std::vector<runtime::Bytes>& pieces, uint64_t offset,
                                    uint64_t size_bytes) const {
  if (size_bytes == 0) return {};
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), offset,
      [](uint64_t value, const RangeRequest& range) { return value < range.offset; });
  OVERLORD_CHECK(joined_ && after != ranges_.begin(), "only what was wanted can be found");
  const auto index = static_cast<size_t>(after - ranges_.begin()) - 1;
  const uint64_t at = offset - ranges_[index].offset;
  OVERLORD_CHECK(at + size_bytes <= pieces[index].size, "only what was wanted can be found");
  return std::string_view(pieces[index].data + at, size_bytes);
}

}  // namespace overlord::columnar
