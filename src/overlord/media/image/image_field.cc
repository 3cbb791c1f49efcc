// Pictures as a kind of media: width, height and orientation are what the index keeps of one.
#include <utility>

#include "overlord/base/check.h"
#include "overlord/media/field_chain.h"
#include "overlord/media/image/chain_rows.h"
#include "overlord/media/image/image_chain.h"
#include "overlord/media/image/image_head.h"

namespace overlord::media {
namespace {

HeaderValues values_of(const ImageHeader& header) {
  return {static_cast<uint32_t>(header.width), static_cast<uint32_t>(header.height),
          static_cast<uint32_t>(header.orientation)};
}

ImageHeader header_of(const HeaderValues& values) {
  ImageHeader header;
  header.width = static_cast<int32_t>(values[0]);
  header.height = static_cast<int32_t>(values[1]);
  header.orientation = static_cast<int32_t>(values[2]);
  return header;
}

std::string header_text(const HeaderValues& values) {
  return std::to_string(values[0]) + "x" + std::to_string(values[1]) + " pixels, orientation " +
         std::to_string(values[2]);
}

Result<HeaderValues> probe(const BlobHead& blob) {
  OVERLORD_TRY(const ImageHeader header, probe_image_head(blob));
  return values_of(header);
}

class ImageField final : public FieldChain {
 public:
  ImageField(PreparedImageChain chain, ChainRows rows) : chain_(std::move(chain)) {
    rows_.element = rows.floats ? model::Element::kF32 : model::Element::kU8;
    rows_.shape = std::move(rows.shape);
    rows_.has_units = rows_.tells_tokens = rows.patches;
  }

  std::string text() const override { return chain_text(chain_.chain()); }
  const FieldRows& rows() const override { return rows_; }

  Result<FieldPlan> planned(const HeaderValues& header, uint64_t size_bytes) const override {
    const ImageHeader known = header_of(header);
    OVERLORD_RETURN_IF_ERROR(
        check_limits(known, static_cast<size_t>(size_bytes), chain_.chain().decode.limits));
    OVERLORD_TRY(const ImageGeometry geometry, chain_.planned_size(known));
    FieldPlan plan;
    plan.parts = geometry.tiles;
    plan.part_units = geometry.patches / geometry.tiles;
    plan.units = geometry.patches;
    plan.tokens = geometry.tokens;
    plan.size_bytes = geometry.bytes();
    model::MediaShape& shape = plan.shape;
    shape.t = static_cast<uint32_t>(geometry.tiles);
    if (geometry.patches > 0) {
      shape.rows = static_cast<uint32_t>(geometry.patches);
      shape.t *= static_cast<uint32_t>(geometry.grid_t);
      shape.h = static_cast<uint32_t>(geometry.grid_h);
      shape.w = static_cast<uint32_t>(geometry.grid_w);
    } else {
      shape.rows = shape.t;
      shape.h = static_cast<uint32_t>(geometry.height);
      shape.w = static_cast<uint32_t>(geometry.width);
    }
    return plan;
  }

  Status run(std::string_view blob, const HeaderValues& promised, uint64_t key,
             std::span<uint8_t> out) const override {
    OVERLORD_TRY(const ImageHeader header, probe_image(blob));
    const HeaderValues found = values_of(header);
    if (found != promised) {
      return bad_data("the index promises " + header_text(promised) + ", the picture has " +
                      header_text(found));
    }
    thread_local ChainScratch scratch;
    return chain_.run(blob, header, key, scratch, out);
  }

 private:
  PreparedImageChain chain_;
  FieldRows rows_;
};

Result<FieldChainPtr> prepare(std::string_view transform) {
  OVERLORD_TRY(ImageChain chain, parse_chain(transform));
  OVERLORD_TRY(ChainRows rows, chain_rows(chain));
  OVERLORD_TRY(PreparedImageChain prepared, PreparedImageChain::prepare(std::move(chain)));
  return FieldChainPtr(std::make_shared<const ImageField>(std::move(prepared), std::move(rows)));
}

}  // namespace

const KindOfMedia& image_kind() {
  static constexpr KindOfMedia kKind = {model::MediaKind::kImage,
                                        "image",
                                        "picture headers 2",
                                        64 << 10,
                                        3,
                                        image_probe_need,
                                        probe,
                                        prepare};
  return kKind;
}

}  // namespace overlord::media
