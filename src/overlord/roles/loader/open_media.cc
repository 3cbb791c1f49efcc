#include "overlord/roles/loader/open_media.h"

#include "overlord/media/chain_rows.h"
#include "overlord/media/image_head.h"
#include "overlord/runtime/quote.h"

namespace overlord::loader {
namespace {

using runtime::quote;

constexpr uint32_t kProbeValues = 3;  // width, height, orientation

class ImageProbe final : public columnar::MediaProbe {
 public:
  explicit ImageProbe(std::string fields) : fields_(std::move(fields)) {}

  std::string version() const override { return "picture headers 1 of" + fields_; }
  uint32_t head_bytes() const override { return columnar::kMaxHeadBytes; }
  uint32_t values_per_blob() const override { return kProbeValues; }
  std::string look(const model::MediaField& field, std::string_view head, uint64_t size_bytes,
                   std::span<uint32_t> values) const override {
    if (!field.use) return {};
    const Result<media::ImageHeader> header = media::probe_image_head(head, size_bytes);
    if (!header.ok()) return header.status().message();
    values[0] = static_cast<uint32_t>(header->width);
    values[1] = static_cast<uint32_t>(header->height);
    values[2] = static_cast<uint32_t>(header->orientation);
    return {};
  }

 private:
  std::string fields_;  // those that are looked at: an index made for others is of no use
};

// Placeholders of a picture: what the chain makes of it, or as many as declared for each tile.
int64_t pads_of(const model::MediaUse& use, const media::ImageGeometry& geometry) {
  if (!use.pad) return 0;
  return use.pads > 0 ? int64_t{use.pads} * geometry.tiles : geometry.tokens;
}

Status not_indexed(const model::Source& source, const std::string& name) {
  return {Code::kStateMismatch, "source " + quote(source.name) +
                                    ": its index does not have the picture sizes of media " +
                                    quote(name) + "; run `overlord index`"};
}

Result<OpenMediaField> open_field(const model::Source& source, size_t number,
                                  const columnar::SourceIndex& index) {
  const model::MediaField& declared = source.media[number];
  const std::string where = "source " + quote(source.name) + ", media " + quote(declared.name);
  OpenMediaField field;
  field.number = number;
  field.name = declared.name;
  field.use = *declared.use;
  Result<media::ImageChain> chain = media::parse_chain(field.use.transform);
  if (!chain.ok()) return chain.status().with_context(where);
  const Result<media::ChainRows> rows = media::chain_rows(*chain);
  if (!rows.ok()) return rows.status().with_context(where);
  if (field.use.pad && field.use.pads == 0 && !rows->patches) {
    return invalid_argument(where + ": tokens.count is needed where the transform has no patchify");
  }
  Result<media::PreparedImageChain> prepared =
      media::PreparedImageChain::prepare(std::move(*chain));
  if (!prepared.ok()) return prepared.status().with_context(where);
  field.chain = std::move(*prepared);
  field.layout = {declared.name, rows->floats ? model::Element::kF32 : model::Element::kU8,
                  rows->shape};
  if (index.media_values_per_blob() != kProbeValues) return not_indexed(source, declared.name);
  field.sizes = index.media_sizes(number);
  field.widths = index.media_values(number, 1);
  field.heights = index.media_values(number, 2);
  field.orientations = index.media_values(number, 3);
  // A good row has a size of at least 1: where the probe passed over the field, all are 0.
  for (size_t row = 0; row < field.sizes.size(); ++row) {
    if (field.sizes[row] == columnar::kNoMedia) continue;
    if (field.widths[row] == 0) return not_indexed(source, declared.name);
    break;
  }
  return field;
}

}  // namespace

std::shared_ptr<const columnar::MediaProbe> image_probe(const model::Source& source) {
  std::string fields;
  for (const model::MediaField& field : source.media) {
    if (field.use) fields += " " + field.name;
  }
  if (fields.empty()) return nullptr;
  return std::make_shared<const ImageProbe>(std::move(fields));
}

Result<std::string> canonical_transform(const std::string& text) {
  OVERLORD_TRY(media::ImageChain chain, media::parse_chain(text));
  OVERLORD_TRY(const media::ChainRows rows, media::chain_rows(chain));
  OVERLORD_TRY(const media::PreparedImageChain prepared,
               media::PreparedImageChain::prepare(std::move(chain)));
  return media::chain_text(prepared.chain());
}

model::MediaShape shape_of(const media::ImageGeometry& geometry) {
  model::MediaShape shape;
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
  return shape;
}

Result<std::shared_ptr<const OpenMedia>> OpenMedia::open(const model::Source& source,
                                                         const columnar::SourceIndex& index) {
  if (!model::delivers_media(source)) return std::shared_ptr<const OpenMedia>();
  auto open = std::make_shared<OpenMedia>();
  for (size_t i = 0; i < source.media.size(); ++i) {
    if (!source.media[i].use) continue;
    OVERLORD_TRY(OpenMediaField field, open_field(source, i, index));
    open->fields_.push_back(std::move(field));
  }
  return std::shared_ptr<const OpenMedia>(std::move(open));
}

media::ImageHeader OpenMedia::promised(const OpenMediaField& field, uint64_t row) const {
  media::ImageHeader header;
  header.width = static_cast<int32_t>(field.widths[row]);
  header.height = static_cast<int32_t>(field.heights[row]);
  header.orientation = static_cast<int32_t>(field.orientations[row]);
  return header;
}

Result<PlannedMedia> OpenMedia::planned(uint64_t row) const {
  PlannedMedia planned;
  int64_t total = 0;
  for (size_t i = 0; i < fields_.size(); ++i) {
    const OpenMediaField& field = fields_[i];
    if (field.sizes[row] == columnar::kNoMedia) continue;
    const auto named = [&](const Status& status) {
      return bad_data("media " + quote(field.name) + ": " + status.message());
    };
    const media::ImageHeader header = promised(field, row);
    const Status within =
        media::check_limits(header, field.sizes[row], field.chain.chain().decode.limits);
    if (!within.ok()) return named(within);
    Result<media::ImageGeometry> geometry = field.chain.planned_size(header);
    if (!geometry.ok()) return named(geometry.status());
    const int64_t pads = pads_of(field.use, *geometry);
    const int64_t around = (field.use.before ? 1 : 0) + (field.use.after ? 1 : 0);
    total += pads + around;
    if (total > INT32_MAX) return named(bad_data("more tokens than a document may have"));
    planned.blobs.push_back({i, std::move(*geometry), static_cast<uint32_t>(pads),
                             static_cast<uint32_t>(pads + around)});
  }
  planned.tokens = static_cast<uint32_t>(total);
  return planned;
}

}  // namespace overlord::loader
