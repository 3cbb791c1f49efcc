#include "overlord/protocol/state_codec.h"

#include <algorithm>
#include <optional>

#include "overlord/base/bytes.h"
#include "overlord/protocol/feedback_codec.h"
#include "overlord/protocol/fields/field_codec.h"

namespace overlord::protocol {
namespace {

constexpr uint32_t kStateMagic = 0x5453564f;  // "OVST"
constexpr uint8_t kEnded = 1;                 // flags of a stream state
constexpr uint8_t kInWindow = 2;
constexpr size_t kMostColumns = 1 << 16;
constexpr uint8_t kWithColumns = 4;  // carried documents have values of metadata columns
constexpr uint8_t kWithTotals = 8;
constexpr uint8_t kWithGroups = 16;  // carried documents say whether they are joined

// Both ways, as all that follows: in the order in which the fields are written.
template <typename Codec>
void list_cursor(Codec& codec, auto& cursor) {
  auto& [pass, position, debt, samples, tokens, bad, dropped, dry] = cursor;
  codec(pass, position, debt, samples, tokens, bad, dropped, dry);
}

// Carried documents lie close behind their source's cursor: positions are coded against it.
// False: it makes no sense.
template <typename Codec>
bool list_carried(Codec& codec, auto& carried, const model::StreamState& state, bool with_groups) {
  codec(carried.id.source);
  if (carried.id.source >= state.cursors.size()) return false;
  const model::SourceCursor& cursor = state.cursors[carried.id.source];
  uint32_t passes = cursor.pass - carried.id.pass;
  auto behind = static_cast<int64_t>(cursor.position - carried.id.position);
  uint32_t cut = carried.tokens - carried.end;
  uint64_t steps = state.next_step - carried.drawn_step;
  codec(passes, behind, carried.first, carried.tokens, cut, steps);
  if constexpr (kIsReader<Codec>) {
    carried.id.pass = cursor.pass - passes;
    carried.id.position = cursor.position - static_cast<uint64_t>(behind);
    carried.end = carried.tokens - cut;
    carried.drawn_step = state.next_step - steps;
  }
  for (auto& value : carried.columns) {
    auto stored = static_cast<uint64_t>(value);
    codec(stored);
    if constexpr (kIsReader<Codec>) {
      if (stored > 0xffffffffull) return false;
      value = static_cast<int64_t>(stored);
    }
  }
  if (with_groups) codec(carried.joined);
  codec(carried.masked);
  if (carried.masked) {
    if constexpr (kIsWriter<Codec>) {
      codec.bytes().varint(carried.spans.size());
    } else {
      carried.spans.resize(codec.bytes().count(2));
    }
    for (auto& span : carried.spans) codec(span.first, span.count);
  }
  return carried.first <= carried.end && carried.end <= carried.tokens &&
         carried.drawn_step <= state.next_step;
}

// What stands before the cursors. False: it makes no sense.
struct CarriedForm {
  size_t columns = 0;
  bool groups = false;
};

bool read_place(ByteReader* reader, model::StreamState* state, CarriedForm* form) {
  state->next_step = reader->varint();
  state->leftover_dropped = reader->varint();
  const uint8_t flags = reader->u8();
  state->ended = (flags & kEnded) != 0;
  if (flags & kInWindow) state->window_step = static_cast<uint32_t>(reader->varint());
  form->columns = flags & kWithColumns ? reader->count(0) : 0;
  form->groups = (flags & kWithGroups) != 0;
  if (flags & kWithTotals) FieldReader{reader}(state->totals);
  return flags <= (kEnded | kInWindow | kWithColumns | kWithTotals | kWithGroups) &&
         state->window_step <= state->next_step && form->columns <= kMostColumns;
}

const std::string kSourcePrefix = "source:";

// Sources are many: their digests travel as 64 bits, which is plenty to notice a change.
Digest shortened(const Digest& digest) { return {0, digest.low}; }

bool is_source(const SectionDigest& section) { return section.name.starts_with(kSourcePrefix); }

bool fits_sources(const model::StepFeedback& feedback, const ResumeState& saved) {
  const size_t sources = saved.source_names.size();
  for (const model::SourceLoss& loss : feedback.losses) {
    if (loss.source >= sources) return false;
  }
  return feedback.weights.empty() || feedback.weights.size() == sources;
}

std::string differ(const std::string& what, const Digest& saved, const Digest& now) {
  return "\n  " + what + ": saved " + saved.hex() + ", now " + now.hex();
}

// Sections of a spec as a state holds them.
std::vector<SectionDigest> state_sections(const std::vector<SectionDigest>& sections) {
  std::vector<SectionDigest> out = sections;
  for (SectionDigest& section : out) {
    if (is_source(section)) section.digest = shortened(section.digest);
  }
  return out;
}

const SectionDigest* find_section(const std::vector<SectionDigest>& sections,
                                  const std::string& name) {
  for (const SectionDigest& section : sections) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

// Whether nothing of the stream's section differs but its bins: with those of the state it has the
// digest that was saved. Inside a step the count of microbatches means something on its bins only.
bool is_rebatched(const ResumeState& saved, const model::JobSpec& spec) {
  if (saved.bins.empty()) return false;
  model::JobSpec before = spec;
  before.bins = saved.bins.front().bins;
  before.later_bins.assign(saved.bins.begin() + 1, saved.bins.end());
  const StepIndex step = saved.state.next_step;
  if (saved.microbatch > 0 && before.bins_at(step) != spec.bins_at(step)) return false;
  const SectionDigest* was = find_section(saved.sections, "stream");
  return was != nullptr && was->digest == find_section(section_digests(before), "stream")->digest;
}

// Config sections that changed without leave.
std::string section_differences(const ResumeState& saved, const model::JobSpec& spec,
                                AllowedChanges allowed) {
  std::string out;
  const bool rebatched = allowed.batch && is_rebatched(saved, spec);
  const std::vector<SectionDigest> now = state_sections(section_digests(spec));
  for (const SectionDigest& section : now) {
    const SectionDigest* before = find_section(saved.sections, section.name);
    const Digest was = before == nullptr    ? Digest()
                       : is_source(section) ? shortened(before->digest)
                                            : before->digest;
    if (before == nullptr) {
      if (!allowed.sources) out += "\n  " + section.name + ": not in the saved state";
    } else if (was != section.digest &&
               !(section.name == "mixture" && (allowed.mixture || allowed.sources)) &&
               !(section.name == "stream" && rebatched)) {
      out += differ("config " + section.name, was, section.digest);
    }
  }
  for (const SectionDigest& section : saved.sections) {
    if (find_section(now, section.name) == nullptr && !allowed.sources) {
      out += "\n  " + section.name + ": in the saved state, gone from the config";
    }
  }
  return out;
}

// Values in the order of this job's columns. A column is new only where a source is: what was drawn
// from the others has 0 in it.
std::vector<int64_t> renamed(const std::vector<int64_t>& values,
                             const std::vector<std::string>& before,
                             const std::vector<std::string>& now) {
  std::vector<int64_t> out(now.size(), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto found = std::find(now.begin(), now.end(), before[i]);
    if (found != now.end()) out[static_cast<size_t>(found - now.begin())] = values[i];
  }
  return out;
}

void write_sections(ByteWriter* writer, const ResumeState& saved) {
  writer->varint(saved.sections.size() - saved.source_names.size());
  for (const SectionDigest& section : saved.sections) {
    if (is_source(section)) continue;
    writer->text(section.name);
    writer->digest(section.digest);
  }
  writer->varint(saved.source_names.size());
  for (size_t s = 0; s < saved.source_names.size(); ++s) {
    const SectionDigest* config =
        find_section(saved.sections, kSourcePrefix + saved.source_names[s]);
    OVERLORD_CHECK(config != nullptr, "every source of a state has its section");
    writer->text(saved.source_names[s]);
    writer->u64(config->digest.low);
    writer->u64(saved.source_digests[s].low);
  }
}

void read_sections(ByteReader* reader, ResumeState* saved) {
  saved->sections.resize(reader->count(17));
  for (SectionDigest& section : saved->sections) {
    section.name = reader->text();
    section.digest = reader->digest();
  }
  const size_t sources = reader->count(17);
  for (size_t s = 0; s < sources; ++s) {
    saved->source_names.emplace_back(reader->text());
    saved->sections.push_back({kSourcePrefix + saved->source_names.back(), {0, reader->u64()}});
    saved->source_digests.push_back({0, reader->u64()});
  }
}

}  // namespace

std::string encode_stream_state(const model::StreamState& state) {
  ByteWriter writer;
  writer.varint(state.next_step);
  writer.varint(state.leftover_dropped);
  const size_t columns = state.carried.empty() ? 0 : state.carried.front().columns.size();
  const bool groups = std::any_of(state.carried.begin(), state.carried.end(),
                                  [](const model::Carried& carried) { return carried.joined; });
  const bool totals = state.totals != model::StreamTotals();
  writer.u8((state.ended ? kEnded : 0) | (state.window_step > 0 ? kInWindow : 0) |
            (columns > 0 ? kWithColumns : 0) | (totals ? kWithTotals : 0) |
            (groups ? kWithGroups : 0));
  if (state.window_step > 0) writer.varint(state.window_step);
  if (columns > 0) writer.varint(columns);
  FieldWriter codec(&writer);
  if (totals) codec(state.totals);
  writer.varint(state.cursors.size());
  for (const model::SourceCursor& cursor : state.cursors) list_cursor(codec, cursor);
  writer.varint(state.carried.size());
  for (const model::Carried& carried : state.carried) list_carried(codec, carried, state, groups);
  if (!state.controller.sources.empty()) write_controller(&writer, state.controller);
  return writer.take();
}

Result<model::StreamState> decode_stream_state(std::string_view bytes) {
  ByteReader reader(bytes);
  model::StreamState state;
  CarriedForm form;
  if (!read_place(&reader, &state, &form)) {
    return bad_data("resume state: its place in the stream makes no sense");
  }
  state.cursors.resize(reader.count(kCursorNumbers));
  FieldReader codec(&reader);
  for (model::SourceCursor& cursor : state.cursors) list_cursor(codec, cursor);
  const size_t carried_count = reader.count(8);
  for (size_t i = 0; i < carried_count && !reader.failed(); ++i) {
    model::Carried carried;
    carried.columns.resize(form.columns);
    if (!list_carried(codec, carried, state, form.groups)) {
      return bad_data("resume state: a carried document makes no sense");
    }
    state.carried.push_back(std::move(carried));
  }
  if (!reader.failed() && !reader.at_end()) {
    state.controller = read_controller(&reader);
    if (!reader.failed() && (state.controller.sources.size() != state.cursors.size() ||
                             state.controller.kind > model::ControllerKind::kRule)) {
      return bad_data("resume state: its controller does not fit its sources");
    }
  }
  OVERLORD_RETURN_IF_ERROR(reader.status("resume state"));
  return state;
}

StateParts state_parts(std::string_view bytes) {
  ByteReader reader(bytes);
  model::StreamState place;
  CarriedForm form;
  const bool sense = read_place(&reader, &place, &form);
  StateParts parts;
  parts.cursors.resize(reader.count(kCursorNumbers) * kCursorNumbers);
  parts.head = bytes.substr(0, bytes.size() - reader.remaining());
  for (uint64_t& number : parts.cursors) number = reader.varint();
  if (!sense || reader.failed()) return {{}, {}, bytes};
  parts.tail = bytes.substr(bytes.size() - reader.remaining());
  return parts;
}

uint32_t state_format(const ResumeState& saved) {
  if (!saved.bins.empty()) return kTotalsStateFormat;
  if (!saved.layout.empty()) return kBoundStateFormat;
  if (!saved.columns.empty()) return kColumnsStateFormat;
  const bool plain = saved.state.controller.sources.empty() && saved.feedback.empty();
  return plain ? kPlainStateFormat : kStateFormat;
}

std::string encode_resume_state(const ResumeState& saved) {
  const uint32_t format = state_format(saved);
  ByteWriter body;
  body.text(saved.stream);
  body.varint(saved.microbatch);
  body.digest(saved.config);
  body.digest(saved.manifest);
  body.digest(saved.content_chain);
  body.digest(saved.plan_chain);
  write_sections(&body, saved);
  body.text(encode_stream_state(saved.state));
  if (format >= kColumnsStateFormat) {
    body.varint(saved.columns.size());
    for (const std::string& column : saved.columns) body.text(column);
  }
  if (format != kPlainStateFormat) {
    body.varint(saved.feedback.size());
    for (const model::StepFeedback& feedback : saved.feedback) write_feedback(&body, feedback);
  }
  if (format >= kBoundStateFormat) body.text(saved.layout);
  if (format >= kTotalsStateFormat) FieldWriter{&body}(saved.bins);
  ByteWriter out;
  out.u32(kStateMagic);
  out.u32(format);
  out.u64(hash64(body.bytes().data(), body.size()));
  out.raw(body.bytes().data(), body.size());
  return out.take();
}

Result<ResumeState> decode_resume_state(std::string_view bytes) {
  ByteReader head(bytes);
  const uint32_t magic = head.u32();
  const uint32_t format = head.u32();
  const uint64_t checksum = head.u64();
  if (head.failed() || magic != kStateMagic) return bad_data("resume state: not an Overlord state");
  if (format < kPlainStateFormat || format > kTotalsStateFormat) {
    return Status(Code::kVersionMismatch, "resume state: format " + std::to_string(format) +
                                              ", this build reads " +
                                              std::to_string(kPlainStateFormat) + " to " +
                                              std::to_string(kTotalsStateFormat));
  }
  const std::string_view body = bytes.substr(16);
  if (hash64(body.data(), body.size()) != checksum) {
    return bad_data("resume state: checksum differs, the state is truncated or was edited");
  }
  ByteReader reader(body);
  ResumeState saved;
  saved.stream = reader.text();
  saved.microbatch = static_cast<uint32_t>(reader.varint());
  saved.config = reader.digest();
  saved.manifest = reader.digest();
  saved.content_chain = reader.digest();
  saved.plan_chain = reader.digest();
  read_sections(&reader, &saved);
  const std::string_view state_bytes = reader.text();
  if (format >= kColumnsStateFormat) {
    saved.columns.resize(reader.count(1));
    for (std::string& column : saved.columns) column = reader.text();
  }
  if (format != kPlainStateFormat) {
    saved.feedback.resize(reader.count(3));
    for (model::StepFeedback& feedback : saved.feedback) feedback = read_feedback(&reader);
  }
  if (format >= kBoundStateFormat) saved.layout = reader.text();
  if (format >= kTotalsStateFormat) FieldReader{&reader}(saved.bins);
  OVERLORD_RETURN_IF_ERROR(reader.status("resume state"));
  OVERLORD_TRY(saved.state, decode_stream_state(state_bytes));
  if ((format == kBoundStateFormat && saved.layout.empty()) ||
      (saved.microbatch == 0 && !saved.layout.empty())) {
    return bad_data("resume state: bound to a layout, which only one inside a step is");
  }
  if (saved.state.cursors.size() != saved.source_names.size()) {
    return bad_data("resume state: cursors and source names differ in number");
  }
  for (const model::Carried& carried : saved.state.carried) {
    if (carried.columns.size() != saved.columns.size()) {
      return bad_data("resume state: a carried document has other columns than the job");
    }
  }
  for (const model::StepFeedback& feedback : saved.feedback) {
    if (feedback.step >= saved.state.next_step || !fits_sources(feedback, saved)) {
      return bad_data("resume state: feedback that makes no sense");
    }
  }
  return saved;
}

Result<std::string> bound_state(std::string_view bytes, std::string layout) {
  OVERLORD_TRY(ResumeState saved, decode_resume_state(bytes));
  if (saved.microbatch == 0) return std::string(bytes);
  saved.layout = std::move(layout);
  return encode_resume_state(saved);
}

Result<model::StreamState> adapt_state(const ResumeState& saved, const model::JobSpec& spec,
                                       const model::Manifest& manifest, AllowedChanges allowed) {
  std::string differences;
  if (saved.stream != spec.stream) {
    differences += "\n  stream: saved \"" + saved.stream + "\", now \"" + spec.stream + "\"";
  }
  differences += section_differences(saved, spec, allowed);
  if (saved.state.window_step > 0 && !section_differences(saved, spec, {}).empty()) {
    differences += "\n  window: saved inside one, after " +
                   std::to_string(saved.state.window_step) +
                   " of its steps; changes can be declared at a window's start only";
  }
  model::StreamState state;
  state.next_step = saved.state.next_step;
  state.leftover_dropped = saved.state.leftover_dropped;
  state.ended = saved.state.ended;
  state.window_step = saved.state.window_step;
  state.totals = saved.state.totals;
  std::vector<std::optional<uint32_t>> new_index(saved.source_names.size());
  for (uint32_t s = 0; s < spec.sources.size(); ++s) {
    const auto found =
        std::find(saved.source_names.begin(), saved.source_names.end(), spec.sources[s].name);
    if (found == saved.source_names.end()) {
      state.cursors.emplace_back();
      continue;
    }
    const size_t old = static_cast<size_t>(found - saved.source_names.begin());
    new_index[old] = s;
    state.cursors.push_back(saved.state.cursors[old]);
    const Digest before = shortened(saved.source_digests[old]);
    const Digest now = shortened(manifest.sources[s].digest);
    if (before != now) differences += differ("data of source " + spec.sources[s].name, before, now);
  }
  // Another mixture has another controller, which begins where the state stands.
  const SectionDigest* mixture = find_section(saved.sections, "mixture");
  if (mixture != nullptr && mixture->digest == mixture_digest(spec)) {
    state.controller = saved.state.controller;
  }
  for (const model::Carried& carried : saved.state.carried) {
    if (!new_index[carried.id.source]) {  // its source was removed by declaration: counted, gone
      state.leftover_dropped += carried.end - carried.first;
      continue;
    }
    state.carried.push_back(carried);
    state.carried.back().id.source = *new_index[carried.id.source];
    state.carried.back().columns = renamed(carried.columns, saved.columns, spec.columns);
  }
  if (!differences.empty()) {
    return Status(
        Code::kStateMismatch,
        "resume state does not fit this job; it was saved for other data or config:" + differences +
            "\nUse the config and data it was saved with, or declare the change "
            "(allow=(\"mixture\",), allow=(\"sources\",) or, at a step boundary, "
            "allow=(\"batch\",)).");
  }
  return state;
}

}  // namespace overlord::protocol
