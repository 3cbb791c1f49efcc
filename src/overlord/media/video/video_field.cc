// Clips as a kind of media: size, rotation, frames and duration are what the index keeps of one.
#include <string>
#include <utility>

#include "overlord/media/field_chain.h"
#include "overlord/media/video/video_chain.h"

namespace overlord::media {
namespace {

Result<HeaderValues> values_of(const VideoHeader& header) {
  for (const int64_t value : {header.frames, header.ticks, header.tick_num, header.tick_den}) {
    if (value > UINT32_MAX) {
      return bad_data(
          "clip counts its time too finely for the index: " + std::to_string(header.ticks) +
          " units of " + std::to_string(header.tick_num) + "/" + std::to_string(header.tick_den) +
          " s");
    }
  }
  return HeaderValues{
      static_cast<uint32_t>(header.width),    static_cast<uint32_t>(header.height),
      static_cast<uint32_t>(header.rotation), static_cast<uint32_t>(header.frames),
      static_cast<uint32_t>(header.ticks),    static_cast<uint32_t>(header.tick_num),
      static_cast<uint32_t>(header.tick_den)};
}

VideoHeader header_of(const HeaderValues& values) {
  VideoHeader header;
  header.width = static_cast<int32_t>(values[0]);
  header.height = static_cast<int32_t>(values[1]);
  header.rotation = static_cast<int32_t>(values[2]);
  header.frames = values[3];
  header.ticks = values[4];
  header.tick_num = values[5];
  header.tick_den = values[6];
  return header;
}

std::string header_text(const HeaderValues& values) {
  return std::to_string(values[3]) + " frames of " + std::to_string(values[0]) + "x" +
         std::to_string(values[1]) + " pixels, rotation " + std::to_string(values[2]) + ", " +
         std::to_string(values[4]) + " units of " + std::to_string(values[5]) + "/" +
         std::to_string(values[6]) + " s";
}

// Where an MP4 has its tables is the writer's choice; Matroska has its times all over the file.
Result<BlobNeed> need(const BlobHead& blob) {
  OVERLORD_TRY(const VideoNeed more,
               video_probe_need(blob.head, static_cast<int64_t>(blob.size_bytes)));
  const auto offset = static_cast<uint64_t>(more.offset);
  const auto length = static_cast<uint64_t>(more.length);
  // Readers of whole clips take one piece.
  if (offset == blob.head.size()) return BlobNeed{0, offset + length};
  return BlobNeed{offset, length};
}

Result<HeaderValues> probe(const BlobHead& blob) {
  const VideoParts parts{blob.head, static_cast<int64_t>(blob.tail_offset), blob.tail,
                         static_cast<int64_t>(blob.size_bytes)};
  OVERLORD_TRY(const VideoHeader header, probe_video(parts, {}));
  return values_of(header);
}

// Rows are patches, or frames where the chain gives all of them one size.
Result<FieldRows> rows_of(const VideoChain& chain) {
  FieldRows rows;
  ImageSize size;
  bool planes = false;
  for (const VideoStep& step : chain.steps) {
    if (const auto* const resize = std::get_if<ResizeStep>(&step)) size = resize->size;
    if (const auto* const crop = std::get_if<CentreCropStep>(&step)) size = crop->size;
    if (std::holds_alternative<NormaliseStep>(step)) rows.element = model::Element::kF32;
    if (std::holds_alternative<PlanesStep>(step)) planes = true;
    if (const auto* const patches = std::get_if<PatchifyStep>(&step)) {
      rows.shape = {static_cast<uint32_t>(patches->rule.row_values(3))};
      rows.has_units = rows.tells_tokens = true;
    }
  }
  if (rows.has_units) return rows;
  if (size.width == 0) {
    return invalid_argument(
        "video chain: frames that travel need one size; end it with patchify, or use resize or "
        "centre_crop");
  }
  const auto height = static_cast<uint32_t>(size.height);
  const auto width = static_cast<uint32_t>(size.width);
  rows.shape =
      planes ? std::vector<uint32_t>{3, height, width} : std::vector<uint32_t>{height, width, 3};
  return rows;
}

class VideoField final : public FieldChain {
 public:
  VideoField(PreparedVideoChain chain, FieldRows rows)
      : chain_(std::move(chain)), rows_(std::move(rows)) {}

  std::string text() const override { return chain_text(chain_.chain()); }
  const FieldRows& rows() const override { return rows_; }

  Result<FieldPlan> planned(const HeaderValues& header, uint64_t size_bytes) const override {
    const VideoHeader known = header_of(header);
    OVERLORD_RETURN_IF_ERROR(
        check_limits(known, static_cast<size_t>(size_bytes), chain_.chain().decode.limits));
    OVERLORD_TRY(const VideoGeometry geometry, chain_.planned_size(known));
    const bool patches = geometry.patches > 0;
    FieldPlan plan;
    plan.part_units = plan.units = geometry.patches;
    plan.tokens = geometry.tokens;
    plan.size_bytes = geometry.bytes();
    model::MediaShape& shape = plan.shape;
    shape.rows = static_cast<uint32_t>(patches ? geometry.patches : geometry.frames);
    shape.t = static_cast<uint32_t>(patches ? geometry.grid_t : geometry.frames);
    shape.h = static_cast<uint32_t>(patches ? geometry.grid_h : geometry.height);
    shape.w = static_cast<uint32_t>(patches ? geometry.grid_w : geometry.width);
    return plan;
  }

  Status run(std::string_view blob, const HeaderValues& promised, uint64_t key,
             std::span<uint8_t> out) const override {
    OVERLORD_TRY(const VideoHeader header,
                 probe_video(VideoParts::whole(blob), chain_.chain().decode.limits));
    OVERLORD_TRY(const HeaderValues found, values_of(header));
    if (found != promised) {
      return bad_data("the index promises " + header_text(promised) + ", the clip has " +
                      header_text(found));
    }
    thread_local VideoScratch scratch;
    return chain_.run(blob, header, key, scratch, out);
  }

 private:
  PreparedVideoChain chain_;
  FieldRows rows_;
};

Result<FieldChainPtr> prepare(std::string_view transform) {
  OVERLORD_TRY(VideoChain chain, parse_video_chain(transform));
  OVERLORD_TRY(FieldRows rows, rows_of(chain));
  OVERLORD_TRY(PreparedVideoChain prepared, PreparedVideoChain::prepare(std::move(chain)));
  return FieldChainPtr(std::make_shared<const VideoField>(std::move(prepared), std::move(rows)));
}

}  // namespace

const KindOfMedia& video_kind() {
  static constexpr KindOfMedia kKind = {
      model::MediaKind::kVideo, "video", "clip headers 2", 64 << 10, 7, need, probe, prepare};
  return kKind;
}

}  // namespace overlord::media
