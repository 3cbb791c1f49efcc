#include "overlord/host/media_checks.h"

#include <algorithm>
#include <string>

#include "overlord/base/check.h"

namespace overlord::host {
namespace {

Status check_tokens(const model::Source& source, const model::MediaField& field) {
  const model::MediaUse& use = *field.use;
  const std::string where = "source " + source.name + ", media " + field.name;
  for (const auto& token : {use.pad, use.before, use.after}) {
    if (!token || *token < source.vocabulary) continue;
    return invalid_argument(where + ": token " + std::to_string(*token) +
                            " is not in the vocabulary of " + std::to_string(source.vocabulary));
  }
  if (!use.pad && (use.before || use.after || use.pads > 0 || use.units_per_pad > 0)) {
    return invalid_argument(where + ": tokens around placeholders need a `pad` token");
  }
  if (!use.in_text) return {};
  if (!use.pad) return invalid_argument(where + ": its place in the text needs a `pad` token");
  for (const model::MediaField& other : source.media) {
    if (other.name == field.name || !other.use || !other.use->in_text) continue;
    if (other.use->pad != use.pad) continue;
    return invalid_argument(where + ": its pad token " + std::to_string(*use.pad) +
                            " is that of media " + other.name +
                            " too, so that their places in the text are not told apart");
  }
  return {};
}

std::string layout_text(const model::MediaLayout& layout) {
  std::string text = layout.element == model::Element::kF32   ? "float32 ["
                     : layout.element == model::Element::kI16 ? "int16 ["
                                                              : "uint8 [";
  for (size_t i = 0; i < layout.row_shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(layout.row_shape[i]);
  }
  return text + "]";
}

}  // namespace

Status check_media(const model::JobSpec& spec) {
  for (const model::Source& source : spec.sources) {
    if (!model::delivers_media(source)) continue;
    if (source.over_length != model::OverLength::kDrop) {
      return invalid_argument("source " + source.name +
                              ": over_length must be drop, because a document with media is never "
                              "cut");
    }
    if (spec.packing.method == model::Packing::kConcat) {
      return invalid_argument("packing.method: concat cuts documents, and those of source " +
                              source.name +
                              " carry media, which must stay whole; use best_fit or pad");
    }
    if (spec.strategy.atoms == model::Atoms::kSlices) {
      return invalid_argument("strategy.hybrid: cuts documents into slices, and those of source " +
                              source.name + " carry media, which must stay whole");
    }
    for (const model::MediaField& field : source.media) {
      if (field.use) OVERLORD_RETURN_IF_ERROR(check_tokens(source, field));
    }
  }
  return {};
}

Status add_media_layouts(const loader::OpenSource& source,
                         std::vector<model::MediaLayout>* layouts) {
  if (!source.media) return {};
  for (const loader::OpenMediaField& field : source.media->fields()) {
    const auto at = std::lower_bound(
        layouts->begin(), layouts->end(), field.name,
        [](const model::MediaLayout& one, const std::string& name) { return one.name < name; });
    if (at == layouts->end() || at->name != field.name) {
      layouts->insert(at, field.layout);
    } else if (*at != field.layout) {
      return invalid_argument("source " + source.spec.name + ", media " + field.name + ": makes " +
                              layout_text(field.layout) + " rows, another source makes " +
                              layout_text(*at) +
                              " under this name; give it another name, or the same transform");
    }
  }
  return {};
}

std::vector<uint32_t> media_numbers(const OpenJob& job, const loader::OpenSource& source) {
  std::vector<uint32_t> numbers;
  if (!source.media) return numbers;
  for (const loader::OpenMediaField& field : source.media->fields()) {
    const auto at = std::find_if(job.media.begin(), job.media.end(),
                                 [&](const auto& layout) { return layout.name == field.name; });
    numbers.push_back(static_cast<uint32_t>(at - job.media.begin()));
  }
  return numbers;
}

std::optional<size_t> encoded_field(const OpenJob& job, const loader::OpenSource& source) {
  const auto& encoder = job.spec.strategy.encoder;
  if (!encoder || !source.media) return std::nullopt;
  const std::vector<loader::OpenMediaField>& fields = source.media->fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    const model::MediaField& field = source.spec.media[fields[i].number];
    if (encoder->column == model::units_column(field) ||
        encoder->column == model::count_column(field)) {
      return i;
    }
  }
  return std::nullopt;
}

bool encodes_media(const OpenJob& job) {
  return std::any_of(job.sources.begin(), job.sources.end(),
                     [&](const auto& source) { return encoded_field(job, *source).has_value(); });
}

namespace {

// Rows that are looked at to tell how much decoding inflates.
constexpr uint64_t kRowsWeighed = 4096;

// Over rows spread evenly; those that are refused do not travel.
void weigh(const loader::OpenMedia& media, uint64_t rows, plan::DecodeLoad* load) {
  const uint64_t step = std::max<uint64_t>(rows / kRowsWeighed, 1);
  for (uint64_t row = 0; row < rows; row += step) {
    const Result<loader::PlannedMedia> planned = media.planned(row);
    if (!planned.ok()) continue;
    bool travels = false;
    for (const loader::PlannedBlob& blob : planned->blobs) {
      if (media.fields()[blob.field].use.function.declared()) continue;  // not packed
      load->stored_bytes += media.fields()[blob.field].sizes[blob.blob];
      load->decoded_bytes += blob.plan.size_bytes;
      travels = true;
    }
    load->rows += travels ? 1 : 0;
  }
}

}  // namespace

std::vector<plan::DecodeLoad> decode_loads(const OpenJob& job) {
  std::vector<plan::DecodeLoad> out;
  for (const auto& source : job.sources) {
    plan::DecodeLoad& load = out.emplace_back();
    load.name = source->spec.name;
    load.asked = source->spec.decode_at;
    load.millicores = source->spec.measured.decode_millicores();
    load.encoded = encoded_field(job, *source).has_value();
    if (source->media) weigh(*source->media, source->manifest.rows, &load);
  }
  return out;
}

void set_decoding(std::span<const plan::DecodeChoice> choices, model::JobSpec* spec) {
  OVERLORD_CHECK(choices.size() == spec->sources.size(), "a choice for every source");
  for (size_t s = 0; s < choices.size(); ++s) {
    spec->sources[s].decode_at =
        choices[s].packs ? model::DecodeAt::kConstructor : model::DecodeAt::kLoader;
  }
}

bool packs_media(const loader::OpenSource& source) {
  return source.media && source.spec.decode_at == model::DecodeAt::kConstructor;
}

std::vector<runtime::MediaFunction*> media_functions(
    const loader::OpenSource& source,
    const std::function<runtime::MediaFunction*(const model::Source&, size_t)>& find) {
  std::vector<runtime::MediaFunction*> functions;
  if (!source.media) return functions;
  for (const loader::OpenMediaField& field : source.media->fields()) {
    functions.push_back(field.use.function.declared() ? find(source.spec, field.number) : nullptr);
  }
  return functions;
}

std::shared_ptr<const constructor::MediaChains> media_chains(const OpenJob& job) {
  constructor::MediaChains chains;
  for (const auto& source : job.sources) {
    std::vector<media::FieldChainPtr>& own = chains.emplace_back(job.media.size());
    const std::vector<uint32_t> numbers = media_numbers(job, *source);
    for (size_t i = 0; i < numbers.size(); ++i) {
      own[numbers[i]] = source->media->fields()[i].chain;
    }
  }
  return std::make_shared<const constructor::MediaChains>(std::move(chains));
}

}  // namespace overlord::host
