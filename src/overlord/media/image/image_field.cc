// Pictures as a kind of media: width, height and orientation are what the index keeps of one.
#include <string>

#include "overlord/media/image/chain_rows.h"
#include "overlord/media/image/image_chain.h"
#include "overlord/media/image/image_head.h"
#include "overlord/media/kind_field.h"

namespace overlord::media {
namespace {

struct Pictures {
  using Header = ImageHeader;
  using Prepared = PreparedImageChain;
  using Scratch = ChainScratch;
  static constexpr std::string_view kBlob = "picture";

  static auto parse(std::string_view text) { return parse_chain(text); }
  static auto rows_of(const ImageChain& chain) { return chain_rows(chain); }
  static const ImageLimits& limits(const ImageChain& chain) { return chain.decode.limits; }
  static auto probe(std::string_view blob, const ImageLimits&) { return probe_image(blob); }

  static Result<HeaderValues> values_of(const ImageHeader& header) {
    return HeaderValues{static_cast<uint32_t>(header.width), static_cast<uint32_t>(header.height),
                        static_cast<uint32_t>(header.orientation)};
  }
  static ImageHeader header_of(const HeaderValues& values) {
    ImageHeader header;
    header.width = static_cast<int32_t>(values[0]);
    header.height = static_cast<int32_t>(values[1]);
    header.orientation = static_cast<int32_t>(values[2]);
    return header;
  }
  static std::string header_text(const HeaderValues& values) {
    return std::to_string(values[0]) + "x" + std::to_string(values[1]) + " pixels, orientation " +
           std::to_string(values[2]);
  }
  static FieldPlan plan_of(const ImageGeometry& geometry, const FieldRows&) {
    return pixel_plan(geometry, geometry.tiles, geometry.tiles,
                      int64_t{geometry.tiles} * geometry.grid_t);
  }
};

Result<HeaderValues> probe(const BlobHead& blob) {
  OVERLORD_TRY(const ImageHeader header, probe_image_head(blob));
  return Pictures::values_of(header);
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
                                        prepare_field<KindField<Pictures>>};
  return kKind;
}

}  // namespace overlord::media
