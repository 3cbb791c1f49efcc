#include "overlord/media/image/chain_rows.h"

namespace overlord::media {

Result<FieldRows> SizeFollower::rows(std::string_view refusal) const {
  const uint32_t channels = grey ? 1 : 3;
  FieldRows rows;
  rows.element = floats ? model::Element::kF32 : model::Element::kU8;
  rows.has_units = rows.tells_tokens = patchify != nullptr;
  if (patchify != nullptr) {
    rows.shape = {static_cast<uint32_t>(patchify->row_values(static_cast<int32_t>(channels)))};
    return rows;
  }
  if (!size) return invalid_argument(std::string(refusal));
  const auto height = static_cast<uint32_t>(size->height);
  const auto width = static_cast<uint32_t>(size->width);
  rows.shape = planes ? std::vector<uint32_t>{channels, height, width}
                      : std::vector<uint32_t>{height, width, channels};
  return rows;
}

Result<FieldRows> chain_rows(const ImageChain& chain) {
  SizeFollower end;
  for (const ImageStep& step : chain.steps) std::visit(end, step);
  return end.rows(
      "image chain: pictures leave it in different sizes and would not fit one array; end it "
      "with patchify, or bring them to one size with resize, centre_crop, random_crop, "
      "random_resized_crop, tile or an aspect_bucket of one size");
}

}  // namespace overlord::media
