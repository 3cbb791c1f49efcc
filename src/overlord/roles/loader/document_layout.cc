#include "overlord/roles/loader/document_layout.h"

#include <string>

#include "overlord/base/check.h"
#include "overlord/model/widen.h"
#include "overlord/runtime/quote.h"

namespace overlord::loader {
namespace {

// A field whose placeholders take the place of tokens in the text.
struct InText {
  int32_t pad = 0;
  size_t field = 0;           // in OpenMedia::fields()
  std::vector<size_t> blobs;  // in PlannedMedia::blobs
  size_t found = 0;           // of its pads so far
};

Status other_count(const OpenMediaField& field, const InText& in_text) {
  return bad_data("media " + runtime::quote(field.name) + ": its tokens have the pad token " +
                  std::to_string(in_text.pad) + " " + std::to_string(in_text.found) +
                  " times, and it has " + std::to_string(in_text.blobs.size()) +
                  " blobs; each needs one pad token in the text");
}

// Adds runs of what carries loss and what does not.
class LossRuns {
 public:
  explicit LossRuns(std::vector<model::LossSpan>* out) : out_(out) {}

  void add(uint32_t count, bool carries) {
    if (count > 0 && carries && !open_) begin_ = at_;
    if (count > 0 && !carries) close();
    open_ = count > 0 ? carries : open_;
    at_ += count;
  }
  void close() {
    OVERLORD_CHECK(!open_ || at_ > begin_, "a run carries something");
    if (open_) out_->push_back({begin_, at_ - begin_});
    open_ = false;
  }

 private:
  std::vector<model::LossSpan>* const out_;
  uint32_t at_ = 0;
  uint32_t begin_ = 0;
  bool open_ = false;
};

}  // namespace

Result<std::vector<DocumentPart>> lay_out(std::span<const OpenMediaField> fields,
                                          const PlannedMedia& planned,
                                          const model::TokenSpan& raw) {
  std::vector<DocumentPart> parts;
  std::vector<InText> in_text;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!fields[i].use.in_text) continue;
    in_text.push_back({static_cast<int32_t>(fields[i].use.pad.value_or(0)), i, {}, 0});
  }
  for (size_t blob = 0; blob < planned.blobs.size(); ++blob) {
    const size_t field = planned.blobs[blob].field;
    OVERLORD_CHECK(field < fields.size(), "a blob of a delivered field");
    if (!fields[field].use.in_text) parts.push_back({0, 0, blob});
    for (InText& each : in_text) {
      if (each.field == field) each.blobs.push_back(blob);
    }
  }
  if (in_text.empty()) {
    if (raw.count > 0) parts.push_back({0, raw.count});
    return parts;
  }
  thread_local std::vector<int32_t> tokens;
  tokens.resize(raw.count);
  model::widen(raw, 0, raw.count, tokens.data());
  uint32_t begin = 0;
  for (uint32_t i = 0; i < raw.count; ++i) {
    for (InText& each : in_text) {
      if (tokens[i] != each.pad) continue;
      if (each.found < each.blobs.size()) {
        if (i > begin) parts.push_back({begin, i - begin});
        parts.push_back({0, 0, each.blobs[each.found]});
        begin = i + 1;
      }
      ++each.found;
      break;
    }
  }
  if (raw.count > begin) parts.push_back({begin, raw.count - begin});
  for (const InText& each : in_text) {
    if (each.found != each.blobs.size()) return other_count(fields[each.field], each);
  }
  return parts;
}

void add_loss_spans(const model::Source& source, const PlannedMedia& planned,
                    std::span<const DocumentPart> parts, const uint8_t* mask,
                    std::vector<model::LossSpan>* out) {
  LossRuns runs(out);
  runs.add(source.bos ? 1 : 0, true);
  for (const DocumentPart& part : parts) {
    if (part.blob) {
      runs.add(planned.blobs[*part.blob].tokens, false);
    } else if (mask == nullptr) {
      runs.add(part.count, true);
    } else {
      for (uint32_t i = part.begin; i < part.begin + part.count; ++i) runs.add(1, mask[i] != 0);
    }
  }
  runs.add(source.eod ? 1 : 0, true);
  runs.close();
}

}  // namespace overlord::loader
