// DocumentLayout: in which order the placeholders of a document's media and its own tokens come.
// The planner's lengths and loss spans and the tokens that are served are both made by it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/media_slab.h"
#include "overlord/model/sample_meta.h"
#include "overlord/model/source.h"
#include "overlord/model/token_span.h"
#include "overlord/roles/loader/open_media.h"

namespace overlord::loader {

// A run of the row's own tokens, or all that stands for one blob.
struct DocumentPart {
  uint32_t begin = 0;
  uint32_t count = 0;
  std::optional<size_t> blob = std::nullopt;  // in PlannedMedia::blobs

  friend bool operator==(const DocumentPart&, const DocumentPart&) = default;
};

// Without bos and eod. First the blobs of fields that stand before the text, then the row's tokens,
// in which every `pad` of a field in the text is the place of its next blob. kBadData: there are
// more or fewer of them than blobs.
Result<std::vector<DocumentPart>> lay_out(std::span<const OpenMediaField> fields,
                                          const PlannedMedia& planned, const model::TokenSpan& raw);

// Runs of the document's tokens that carry loss: bos, eod, and of its own tokens those that `mask`
// says (null: all), but no placeholder.
void add_loss_spans(const model::Source& source, const PlannedMedia& planned,
                    std::span<const DocumentPart> parts, const uint8_t* mask,
                    std::vector<model::LossSpan>* out);

}  // namespace overlord::loader
