#include "overlord/plan/select/loss_finder.h"

#include "overlord/base/check.h"
#include "overlord/plan/select/packing.h"

namespace overlord::plan {
namespace {

bool goes_on(const model::Segment& segment) {
  return (segment.flags & model::Segment::kContinues) != 0;
}

// Targets of a segment of which every token carries loss.
uint32_t most_targets(const model::Segment& segment) { return segment.count - !goes_on(segment); }

}  // namespace

std::optional<std::span<const model::LossSpan>> LossFinder::find(const SampleId& id) const {
  for (const model::Carried& carried : before_.carried) {
    if (carried.id == id) {
      if (!carried.masked) return std::nullopt;
      return std::span<const model::LossSpan>(carried.spans);
    }
  }
  const model::MetaWindow* window = meta_[id.source].find(id.pass, id.position);
  if (window == nullptr || window->span_ends.empty()) return std::nullopt;
  const uint64_t row = id.position - window->first.position;
  OVERLORD_CHECK(row < window->span_ends.size(), "a masked row has its spans");
  const uint32_t begin = row == 0 ? 0 : window->span_ends[row - 1];
  return std::span(window->spans).subspan(begin, window->span_ends[row] - begin);
}

uint32_t targets_of_part(const model::Segment& whole, const model::Segment& part,
                         const LossFinder* finder) {
  OVERLORD_CHECK(part.first >= whole.first &&
                     uint64_t{part.first} + part.count <= uint64_t{whole.first} + whole.count,
                 "a part lies in its whole");
  if (part.count == 0 || whole.targets == 0) return 0;
  if (part.count == whole.count) return whole.targets;
  if (whole.targets == most_targets(whole)) return most_targets(part);
  OVERLORD_CHECK(finder != nullptr, "a masked segment is cut and nobody knows its loss spans");
  const auto spans = finder->find(part.id);
  OVERLORD_CHECK(spans.has_value(), "a segment with a mask has loss spans");
  Piece piece;
  piece.first = part.first;
  piece.count = part.count;
  piece.tokens = part.first + part.count + (goes_on(part) ? 1 : 0);
  piece.mask = 0;  // any: it is masked
  return count_targets(piece, *spans);
}

}  // namespace overlord::plan
