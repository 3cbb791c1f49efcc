#include "overlord/roles/loader/open_media.h"

#include <algorithm>
#include <map>

#include "overlord/base/check.h"
#include "overlord/runtime/quote.h"

namespace overlord::loader {
namespace {

using runtime::quote;

static_assert(media::kMostHeaderValues <= columnar::kMaxProbeValues);

constexpr uint32_t kPartValues = 2;  // behind those of headers, in an index with parts

class HeaderProbe final : public columnar::MediaProbe {
 public:
  HeaderProbe(std::string version, uint32_t head_bytes, uint32_t values)
      : version_(std::move(version)), head_bytes_(head_bytes), values_(values) {}

  std::string version() const override { return version_; }
  uint32_t head_bytes() const override { return head_bytes_; }
  uint32_t values_per_blob() const override { return values_; }
  Result<columnar::BlobRange> need(const model::MediaField& field,
                                   const columnar::BlobParts& parts) const override {
    if (!field.use) return columnar::BlobRange();
    const media::KindOfMedia& kind = media::kind_of_media(field.use->kind);
    OVERLORD_TRY(const media::BlobNeed need, kind.need({parts.head, parts.size_bytes}));
    return columnar::BlobRange{need.offset, need.size_bytes};
  }
  std::string look(const model::MediaField& field, const columnar::BlobParts& parts,
                   std::span<uint32_t> values) const override {
    if (!field.use) return {};
    const media::KindOfMedia& kind = media::kind_of_media(field.use->kind);
    const Result<media::HeaderValues> header =
        kind.probe({parts.head, parts.size_bytes, parts.tail_offset, parts.tail});
    if (!header.ok()) return header.status().message();
    std::copy_n(header->begin(), kind.header_values, values.begin());
    return {};
  }

 private:
  std::string version_;
  uint32_t head_bytes_;
  uint32_t values_;
};

// Placeholders of an item: as declared for each of its parts, or what the chain makes of it.
int64_t pads_of(const model::MediaUse& use, const media::FieldPlan& plan) {
  if (!use.pad) return 0;
  if (use.pads > 0) return plan.parts * use.pads;
  if (use.units_per_pad == 0) return plan.tokens;
  return plan.parts * ((plan.part_units + use.units_per_pad - 1) / use.units_per_pad);
}

Status not_indexed(const model::Source& source, const std::string& name) {
  return {Code::kStateMismatch, "source " + quote(source.name) +
                                    ": its index does not have the header values of media " +
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
  const media::KindOfMedia& kind = media::kind_of_media(field.use.kind);
  Result<media::FieldChainPtr> chain = kind.prepare(field.use.transform);
  if (!chain.ok()) return chain.status().with_context(where);
  field.chain = std::move(*chain);
  const media::FieldRows& rows = field.chain->rows();
  if (field.use.pad && field.use.pads == 0 && field.use.units_per_pad == 0 && !rows.tells_tokens) {
    return invalid_argument(where +
                            ": tokens.count is needed, its transform does not tell how many "
                            "tokens an item is");
  }
  if (field.use.units_per_pad > 0 && !rows.has_units) {
    return invalid_argument(where +
                            ": tokens.every counts patches, and its transform has none; "
                            "end it with patchify, or use tokens.count");
  }
  field.layout = {declared.name, rows.element, rows.shape};
  if (index.media_values_per_blob() < kind.header_values) {
    return not_indexed(source, declared.name);
  }
  field.ends = index.media_ends(number);
  field.sizes = index.media_sizes(number);
  for (uint32_t i = 0; i < kind.header_values; ++i) {
    field.headers.push_back(index.media_values(number, 1 + i));
  }
  if (declared.has_part()) {
    const uint32_t kept = index.media_values_per_blob();
    if (kept < kind.header_values + kPartValues) return not_indexed(source, declared.name);
    for (uint32_t i = kept - kPartValues; i < kept; ++i) {
      field.parts.push_back(index.media_values(number, 1 + i));
    }
  }
  // The first value of a good blob is at least 1: where the probe passed over the field, all are 0.
  if (!field.sizes.empty() && field.headers[0][0] == 0) return not_indexed(source, declared.name);
  return field;
}

}  // namespace

std::shared_ptr<const columnar::MediaProbe> media_probe(const model::Source& source) {
  // The fields that are looked at are part of the version: an index made for others is of no use.
  std::map<model::MediaKind, std::string> fields;
  bool has_parts = false;
  for (const model::MediaField& field : source.media) {
    if (!field.use) continue;
    fields[field.use->kind] += " " + field.name + (field.has_part() ? " in parts" : "");
    has_parts = has_parts || field.has_part();
  }
  if (fields.empty()) return nullptr;
  std::string version;
  uint32_t head_bytes = 0;
  uint32_t values = 0;
  for (const auto& [number, names] : fields) {
    const media::KindOfMedia& kind = media::kind_of_media(number);
    version += (version.empty() ? "" : "; ") + std::string(kind.probe_version) + " of" + names;
    head_bytes = std::max(head_bytes, kind.head_bytes);
    values = std::max(values, kind.header_values);
  }
  return std::make_shared<const HeaderProbe>(std::move(version), head_bytes,
                                             values + (has_parts ? kPartValues : 0));
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

media::HeaderValues OpenMedia::promised(const OpenMediaField& field, uint64_t blob) const {
  media::HeaderValues header = {};
  for (size_t i = 0; i < field.headers.size(); ++i) header[i] = field.headers[i][blob];
  if (!field.parts.empty()) {
    header[media::kPartStart] = field.parts[0][blob];
    header[media::kPartEnd] = field.parts[1][blob];
  }
  return header;
}

Result<PlannedMedia> OpenMedia::planned(uint64_t row) const {
  PlannedMedia planned;
  int64_t total = 0;
  for (size_t i = 0; i < fields_.size(); ++i) {
    const OpenMediaField& field = fields_[i];
    OVERLORD_CHECK(row < field.ends.size(), "a row of the source");
    const uint64_t begin = row == 0 ? 0 : field.ends[row - 1];
    const uint64_t end = field.ends[row];
    for (uint64_t blob = begin; blob < end; ++blob) {
      const auto number = static_cast<uint32_t>(blob - begin);
      const auto named = [&](const Status& status) {
        const std::string which = end - begin > 1 ? ", blob " + std::to_string(number) : "";
        return bad_data("media " + quote(field.name) + which + ": " + status.message());
      };
      Result<media::FieldPlan> plan =
          field.chain->planned(promised(field, blob), field.sizes[blob]);
      if (!plan.ok()) return named(plan.status());
      const int64_t pads = pads_of(field.use, *plan);
      OVERLORD_CHECK(pads >= 0, "placeholders are counted");
      const int64_t around = (field.use.before ? 1 : 0) + (field.use.after ? 1 : 0);
      total += pads + around;
      if (total > INT32_MAX) return named(bad_data("more tokens than a document may have"));
      planned.blobs.push_back({i, blob, number, *plan, static_cast<uint32_t>(pads),
                               static_cast<uint32_t>(pads + around)});
      if (field.use.in_text) ++planned.markers;
    }
  }
  planned.tokens = static_cast<uint32_t>(total);
  return planned;
}

}  // namespace overlord::loader
