// Why the delay cap of best fit holds for every input. Let C be the context, b the bins of a
// substep, lengths padded, and W = (b + 1) C / 2.
//
// (1) Pieces placed largest first, each into the fullest bin that takes it, all find room if they
// add up to at most W. Suppose piece p does not. If p > C/2, every bin holds a piece >= p, so with
// p there are b + 1 pieces > C/2. If p <= C/2, every bin holds more than C - p, in all more than
// b (C - p) + p >= W. Both exceed W.
//
// (2) If pieces wait after a substep, more than (b - 1) C / 2 was placed. If some p <= C/2 waits,
// every bin holds more than C - p >= C/2. Else all that wait are > C/2: a bin that held nothing
// before it was filled got the largest waiting piece, so more than C/2; and of the bins that got
// forced pieces at most one holds C/2 or less, because a bin is opened only for what fits in no
// other.
//
// (3) So if the pool holds at most b C before packing, less than b C - (b - 1) C / 2 = W waits
// after it.
//
// A step is first tried with the slack asked for. If more than W waits after one of its substeps,
// the step is made again drawing at most b C into the pool: by (3), starting from at most W <= b C,
// at most W waits after every substep. Hence what reaches the cap, being part of what waited, adds
// up to at most W at the start of a step and by (1) is placed in its first substep.
//
// Where the next substep has only b' < b bins, the same W' = (b' + 1) C / 2 is reached by drawing
// at most (b + b') C / 2: by (2) less than that minus (b - 1) C / 2 waits, which is W'.
#include "overlord/plan/select/selection.h"

#include <algorithm>
#include <string>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"

namespace overlord::plan {
namespace {

using model::Carried;
using model::JobSpec;
using model::StreamState;

// More slack than this only makes steps be made twice: the pool may keep W at most.
constexpr uint32_t kMostSlackPermille = 400;

Status check_spec(const JobSpec& spec) {
  if (spec.context == 0 || spec.bins == 0)
    return invalid_argument("context and bins must be positive");
  for (const model::BinsStage& stage : spec.bin_stages()) {
    if (spec.substeps != 0 && stage.bins % spec.substeps == 0) continue;
    return invalid_argument("substeps must divide bins: " + std::to_string(spec.substeps) +
                            " and " + std::to_string(stage.bins));
  }
  if (spec.align == 0 || spec.context % spec.align != 0) {
    return invalid_argument("align must divide context: " + std::to_string(spec.align) + " and " +
                            std::to_string(spec.context));
  }
  return Status();
}

bool in_pool(const JobSpec& spec) {
  return spec.packing.method == model::Packing::kBestFit && spec.packing.max_delay_steps > 0;
}

// Loss spans of a row; nothing where its source is not masked.
std::optional<std::span<const model::LossSpan>> spans_of(const Document& document) {
  const model::MetaWindow& window = *document.window;
  if (window.span_ends.empty()) return std::nullopt;
  OVERLORD_CHECK(document.row < window.span_ends.size(), "a masked row has its spans");
  const uint32_t begin = document.row == 0 ? 0 : window.span_ends[document.row - 1];
  return std::span(window.spans).subspan(begin, window.span_ends[document.row] - begin);
}

// Every token that was carried in or drawn is in a bin, or carried on.
void check_conserved(const JobSpec& spec, const StreamState& before, const StreamState& after,
                     const BinWriter& bins) {
  uint64_t in = 0, out = bins.tokens, served = 0;
  for (const Carried& carried : before.carried) in += carried.end - carried.first;
  for (const Carried& carried : after.carried) out += carried.end - carried.first;
  for (size_t s = 0; s < after.cursors.size(); ++s) {
    in += after.cursors[s].tokens - before.cursors[s].tokens;
    served += bins.served[s];
  }
  OVERLORD_CHECK(in == out, "every token that came in is placed or carried");
  OVERLORD_CHECK(served == bins.tokens, "every placed token is of a source");
  OVERLORD_CHECK(bins.bin_ends.size() == spec.bins_at(before.next_step) &&
                     bins.bin_ends.back() == bins.segments.size(),
                 "every segment is in a bin of the step");
}

}  // namespace

StreamState initial_state(const JobSpec& spec) {
  StreamState state;
  state.cursors.resize(spec.sources.size());
  state.controller = initial_controller(spec, 0);
  return state;
}

Result<Selection> Selector::step(const JobSpec& spec, std::span<const uint64_t> source_rows,
                                 const StreamState& before, std::span<const MetaBuffer> meta,
                                 const model::StepFeedback* feedback) {
  if (before.ended || (spec.max_steps > 0 && before.next_step >= spec.max_steps)) {
    return Status(Code::kOutOfRange,
                  "the stream has ended before step " + std::to_string(before.next_step));
  }
  OVERLORD_RETURN_IF_ERROR(check_spec(spec));
  spec_ = &spec;
  before_ = &before;
  OVERLORD_RETURN_IF_ERROR(steer(feedback));
  const Outcome outcome = select(source_rows, meta);
  if (outcome == Outcome::kFailed) return failure_.ok() ? mixer_.failure() : failure_;
  if (outcome == Outcome::kWait) return Selection{std::nullopt, {mixer_.need()}, {}};
  if (spec.leftover == model::Leftover::kDropLast && !filled_) {
    return invalid_argument(
        "leftover: drop_last leaves no step: the documents that are left do not "
        "fill the " +
        std::to_string(spec.bins_at(before.next_step)) + " bins of step " +
        std::to_string(before.next_step) + "; use fewer bins, or leftover: drain");
  }
  return finish(source_rows, meta);
}

Selector::Outcome Selector::select(std::span<const uint64_t> source_rows,
                                   std::span<const MetaBuffer> meta) {
  for (const bool tight : {false, true}) {
    failure_ = begin(source_rows, meta);
    if (!failure_.ok()) return Outcome::kFailed;
    const Outcome outcome = attempt(tight);
    if (outcome != Outcome::kCrowded) return outcome;
  }
  OVERLORD_CHECK(false, "a tight step is not crowded");
  return Outcome::kFailed;
}

// What was reported of an earlier step moves the weights before anything is drawn.
Status Selector::steer(const model::StepFeedback* feedback) {
  failure_ = Status();
  controller_ = before_->controller;
  if (!spec_->mixture.metric_driven()) return Status();
  if (controller_.sources.size() != spec_->sources.size()) {
    return {Code::kStateMismatch, "the controller of the state is of another job"};
  }
  const std::optional<StepIndex> needed = feedback_needed(controller_, before_->next_step);
  if (!needed) return Status();
  if (feedback == nullptr || feedback->step != *needed) {
    return {Code::kUnavailable, "step " + std::to_string(before_->next_step) +
                                    " needs what was reported of step " + std::to_string(*needed) +
                                    ": the mixture is metric-driven"};
  }
  take_feedback(*spec_, *feedback, &controller_);
  return Status();
}

Status Selector::begin(std::span<const uint64_t> source_rows, std::span<const MetaBuffer> meta) {
  filled_ = true;
  writer_.reset(spec_->sources.size(), spec_->bins_at(before_->next_step), spec_->columns.size());
  window_columns_.assign(spec_->columns.empty() ? 0 : spec_->sources.size(), {});
  pool_.reset(spec_->context, spec_->align);
  tails_.clear();
  tail_ = 0;
  OVERLORD_RETURN_IF_ERROR(
      mixer_.begin(*spec_, source_rows, meta, before_->cursors, before_->next_step, &controller_));
  return load_carried();
}

Status Selector::load_carried() {
  const StepIndex step = before_->next_step;
  std::vector<Piece> members;
  for (size_t c = 0; c < before_->carried.size(); ++c) {
    const Carried& carried = before_->carried[c];
    if (carried.id.source >= spec_->sources.size() || carried.first >= carried.end ||
        carried.end > carried.tokens) {
      return {Code::kStateMismatch, "a carried document does not fit the job"};
    }
    if (carried.columns.size() != spec_->columns.size()) {
      return {Code::kStateMismatch, "a carried document has other metadata columns than the job"};
    }
    const uint32_t mask = carried.masked ? writer_.add_mask(carried.spans) : kUnmasked;
    uint32_t values = kNoValues;
    if (carried.first == 0 && !carried.columns.empty()) {
      values = writer_.add_values();
      std::copy(carried.columns.begin(), carried.columns.end(), writer_.values(values).begin());
    }
    const uint32_t count = carried.end - carried.first;
    const bool tail = carried.drawn_step >= step || count > spec_->context || !in_pool(*spec_);
    if (tail) {
      tails_.push_back({carried.id, carried.first, carried.end, carried.tokens, mask, values});
      continue;
    }
    const auto age = static_cast<uint32_t>(step - carried.drawn_step);
    members.push_back({carried.id, carried.first, count, carried.tokens, mask, age, values});
    if (c + 1 < before_->carried.size() && before_->carried[c + 1].joined) continue;
    const Piece piece = piece_of(std::exchange(members, {}));
    if (piece.count > spec_->context) {
      return {Code::kStateMismatch, "a carried group does not fit the job"};
    }
    if (age >= spec_->packing.max_delay_steps) {
      pool_.add_forced(piece);
    } else {
      pool_.add(piece);
    }
  }
  return Status();
}

Selector::Outcome Selector::attempt(bool tight) {
  const uint32_t bins = spec_->bins_at(before_->next_step) / spec_->substeps;
  const uint32_t later = spec_->bins_at(before_->next_step + 1) / spec_->substeps;
  for (uint32_t substep = 0; substep < spec_->substeps; ++substep) {
    Outcome outcome;
    failure_ = mixer_.enter_substep(substep);
    if (!failure_.ok()) return Outcome::kFailed;
    if (in_pool(*spec_)) {
      const bool closes = substep + 1 == spec_->substeps;
      outcome = pack_pool(bins, closes ? std::min(bins, later) : bins, tight);
    } else if (spec_->packing.method == model::Packing::kBestFit) {
      outcome = pack_at_once(bins);
    } else {
      outcome = pack_in_order(bins);
    }
    if (outcome != Outcome::kDone) return outcome;
    OVERLORD_CHECK(writer_.bin_ends.size() == size_t{bins} * (substep + 1),
                   "a substep fills its bins");
  }
  return Outcome::kDone;
}

Selector::Outcome Selector::stopped(Draw draw) {
  return draw == Draw::kWait ? Outcome::kWait : Outcome::kFailed;
}

Selector::Outcome Selector::pack_pool(uint32_t bins, uint32_t after, bool tight) {
  const uint64_t capacity = uint64_t{bins} * spec_->context;
  const uint64_t slack = std::min(spec_->packing.slack_permille, kMostSlackPermille);
  const uint64_t most = (uint64_t{bins} + after) * spec_->context / 2;  // when tight
  const uint64_t wanted = tight ? most : capacity + capacity * slack / 1000;
  bool over = false;
  while (!over && pool_.waiting_tokens() < wanted) {
    const Draw draw = next_piece(spec_->context);
    over = draw == Draw::kOver;
    if (over) break;
    if (draw != Draw::kReady) return stopped(draw);
    if (tight && pool_.waiting_tokens() + pool_.padded(piece_.count) > most) break;
    take_piece();
    pool_.add(piece_);
  }
  // Short without having run out of documents: only a tight step is.
  const bool drops_last = spec_->leftover == model::Leftover::kDropLast;
  const bool held_back = !over && (after < bins || drops_last);
  filled_ = filled_ && (held_back || pool_.waiting_tokens() >= capacity);
  pool_.open_bins(bins);
  pool_.place_forced();
  const uint64_t tokens = writer_.tokens;
  pool_.fill_bins(&writer_);
  OVERLORD_CHECK(writer_.tokens - tokens <= capacity, "bins hold a context each");
  const bool crowded = 2 * pool_.waiting_tokens() > (uint64_t{after} + 1) * spec_->context;
  return crowded && !tight ? Outcome::kCrowded : Outcome::kDone;
}

Selector::Outcome Selector::pack_at_once(uint32_t bins) {
  pool_.open_bins(bins);
  for (;;) {
    const Draw draw = next_piece(spec_->context);
    if (draw == Draw::kOver) {
      filled_ = false;
      break;
    }
    if (draw != Draw::kReady) return stopped(draw);
    if (!pool_.place(piece_)) break;
    take_piece();
  }
  pool_.fill_bins(&writer_);
  return Outcome::kDone;
}

// kConcat: bins full to the last token, documents cut where a bin ends. kPad: one piece to a bin.
Selector::Outcome Selector::pack_in_order(uint32_t bins) {
  const bool one = spec_->packing.method == model::Packing::kPad;
  for (uint32_t bin = 0; bin < bins; ++bin) {
    uint32_t room = spec_->context;
    while (room > 0) {
      const Draw draw = next_piece(room);
      if (draw == Draw::kOver) {
        filled_ = false;
        break;
      }
      if (draw != Draw::kReady) return stopped(draw);
      take_piece();
      writer_.put(piece_);
      OVERLORD_CHECK(round_up(piece_.count, spec_->align) <= room,
                     "a piece fits what is left of its bin");
      // The next document starts at a multiple of align, and so does the bin's end.
      room = one ? 0 : room - static_cast<uint32_t>(round_up(piece_.count, spec_->align));
    }
    writer_.end_bin();
  }
  return Outcome::kDone;
}

Draw Selector::next_piece(uint32_t most) {
  OVERLORD_CHECK(most > 0, "a piece has a token");
  if (tail_ < tails_.size()) {
    const Tail& tail = tails_[tail_];
    const uint32_t count = std::min(most, tail.end - tail.first);
    piece_ = {tail.id, tail.first, count, tail.tokens, tail.mask, 0, tail.values};
    return Draw::kReady;
  }
  const Draw draw = mixer_.next();
  if (draw != Draw::kReady) return draw;
  const Document& document = mixer_.document();
  piece_ = document.rows == 1 ? whole_piece(document) : group_piece(document);
  if (piece_.group == kNoGroup) piece_.count = std::min(most, piece_.count);
  return Draw::kReady;
}

Piece Selector::whole_piece(const Document& document) {
  const auto spans = spans_of(document);
  const uint32_t mask = spans ? writer_.add_mask(*spans) : kUnmasked;
  return {document.id, 0, document.tokens, document.tokens, mask, 0, values_of(document)};
}

Piece Selector::group_piece(const Document& document) {
  std::vector<Piece> members;
  for (uint32_t i = 0; i < document.rows; ++i) {
    Document member = document;
    member.id.position += i;
    member.row += i;
    member.tokens = document.window->tokens[member.row];
    if (model::is_document(member.tokens)) members.push_back(whole_piece(member));
  }
  return piece_of(std::move(members));
}

Piece Selector::piece_of(std::vector<Piece> members) {
  OVERLORD_CHECK(!members.empty(), "a piece has a document");
  Piece piece = members.front();
  if (members.size() == 1) return piece;
  piece.count = 0;
  for (const Piece& member : members) piece.count += pool_.padded(member.count);
  piece.tokens = piece.count;
  piece.group = writer_.add_group(std::move(members));
  return piece;
}

// A document's values, in the order of the job's columns.
uint32_t Selector::values_of(const Document& document) {
  if (spec_->columns.empty()) return kNoValues;
  WindowColumns& known = window_columns_[document.id.source];
  if (known.window != document.window) {
    known.window = document.window;
    known.columns.assign(spec_->columns.size(), nullptr);
    for (const model::MetaColumn& column : document.window->columns) {
      const auto at = std::lower_bound(spec_->columns.begin(), spec_->columns.end(), column.name);
      if (at == spec_->columns.end() || *at != column.name) continue;
      known.columns[static_cast<size_t>(at - spec_->columns.begin())] = &column;
    }
  }
  const uint32_t number = writer_.add_values();
  const std::span<int64_t> values = writer_.values(number);
  for (size_t c = 0; c < values.size(); ++c) {
    if (known.columns[c] != nullptr) values[c] = known.columns[c]->values[document.row];
  }
  return number;
}

void Selector::take_piece() {
  if (tail_ < tails_.size()) {
    Tail& tail = tails_[tail_];
    OVERLORD_CHECK(tail.id == piece_.id && piece_.count <= tail.end - tail.first,
                   "what is taken was next in line");
    tail.first += piece_.count;
    if (tail.first == tail.end) ++tail_;
    return;
  }
  mixer_.take();
  if (piece_.count < piece_.tokens) {
    tails_.push_back(
        {piece_.id, piece_.count, piece_.tokens, piece_.tokens, piece_.mask, piece_.values});
  }
}

void Selector::carry(StreamState* after) const {
  const StepIndex step = before_->next_step;
  after->carried.reserve(before_->carried.size() + before_->carried.size() / 8 + tails_.size());
  const auto add = [&](const SampleId& id, uint32_t first, uint32_t tokens, uint32_t end,
                       StepIndex drawn_step, uint32_t mask, uint32_t values, bool joined) {
    OVERLORD_CHECK(first < end && end <= tokens, "what is carried can be loaded again");
    Carried& carried = after->carried.emplace_back();
    carried = {id, first, tokens, end, drawn_step, {}, mask != kUnmasked, {}, joined};
    // What the document has was counted with its first segment.
    carried.columns.assign(spec_->columns.size(), 0);
    if (first == 0 && values != kNoValues) {
      const auto own = writer_.values(values);
      carried.columns.assign(own.begin(), own.end());
    }
    if (mask == kUnmasked) return;
    const auto spans = writer_.mask(mask);
    carried.spans.assign(spans.begin(), spans.end());
  };
  pool_.for_each_waiting([&](const Piece& piece) {
    OVERLORD_CHECK(piece.age <= step, "a piece was drawn in a step");
    const bool grouped = piece.group != kNoGroup;
    const auto members = grouped ? writer_.group(piece.group) : std::span(&piece, 1);
    for (const Piece& own : members) {
      add(own.id, own.first, own.tokens, own.first + own.count, step - piece.age, own.mask,
          own.values, &own != members.data());
    }
  });
  for (size_t t = tail_; t < tails_.size(); ++t) {
    const Tail& tail = tails_[t];
    add(tail.id, tail.first, tail.tokens, tail.end, step + 1, tail.mask, tail.values, false);
  }
}

bool Selector::ends(const StreamState& after) const {
  if (spec_->max_steps > 0 && after.next_step >= spec_->max_steps) return true;
  if (!mixer_.over()) return false;
  if (after.carried.empty()) return true;
  return spec_->leftover == model::Leftover::kDrop && !filled_;
}

Draw Selector::look_ahead(std::span<const uint64_t> source_rows, std::span<const MetaBuffer> meta,
                          const StreamState& after) {
  if (endless()) return Draw::kReady;
  // What is wrong with the next step is that step's to say. A controller moves weights and never
  // takes the last of one away, so this step's will do.
  const Status begun = next_mixer_.begin(*spec_, source_rows, meta, after.cursors, after.next_step,
                                         &after.controller);
  return begun.ok() ? next_mixer_.next() : Draw::kFailed;
}

// Sources that only repeat never end.
bool Selector::endless() const {
  const auto repeats = [](const model::Source& source) {
    return source.at_end == model::EndPolicy::kRepeat;
  };
  return spec_->mixture.max_passes.empty() &&
         std::all_of(spec_->sources.begin(), spec_->sources.end(), repeats);
}

Selector::Outcome Selector::try_next(std::span<const uint64_t> source_rows,
                                     std::span<const MetaBuffer> meta, const StreamState& after,
                                     bool* last) {
  if (endless()) return Outcome::kDone;
  if (!next_) next_ = std::make_unique<Selector>();
  next_->spec_ = spec_;
  next_->before_ = &after;
  next_->controller_ = after.controller;
  const Outcome outcome = next_->select(source_rows, meta);
  if (outcome == Outcome::kWait) need_ = next_->mixer_.need();
  *last = outcome == Outcome::kDone && !next_->filled_;
  return outcome == Outcome::kWait ? outcome : Outcome::kDone;  // a failure is that step's to say
}

Selector::Outcome Selector::find_end(std::span<const uint64_t> source_rows,
                                     std::span<const MetaBuffer> meta, const StreamState& after,
                                     bool* last) {
  *last = ends(after);
  if (*last) return Outcome::kDone;
  if (spec_->leftover == model::Leftover::kDropLast) {
    return try_next(source_rows, meta, after, last);
  }
  if (!after.carried.empty()) return Outcome::kDone;
  const Draw ahead = look_ahead(source_rows, meta, after);
  if (ahead == Draw::kWait) need_ = next_mixer_.need();
  *last = ahead == Draw::kOver;
  return ahead == Draw::kWait ? Outcome::kWait : Outcome::kDone;
}

Result<Selection> Selector::finish(std::span<const uint64_t> source_rows,
                                   std::span<const MetaBuffer> meta) {
  Selection selection;
  StreamState& after = selection.after;
  StepContent content;
  after.next_step = before_->next_step + 1;
  after.leftover_dropped = before_->leftover_dropped;
  after.controller = std::move(controller_);
  mixer_.finish(&after.cursors, &content.asked);
  carry(&after);
  check_conserved(*spec_, *before_, after, writer_);

  if (find_end(source_rows, meta, after, &content.last) == Outcome::kWait) {
    return Selection{std::nullopt, {need_}, {}};
  }
  if (writer_.segments.empty() && before_->next_step == 0) {
    return invalid_argument("no source can serve a document: " + mixer_.why_nothing());
  }
  if (content.last) {
    for (const Carried& carried : after.carried)
      after.leftover_dropped += carried.end - carried.first;
    after.carried.clear();
    after.ended = true;
  }
  content.segments = std::move(writer_.segments);
  content.bin_ends = std::move(writer_.bin_ends);
  content.waits = std::move(writer_.waits);
  content.served = std::move(writer_.served);
  for (size_t c = 0; c < spec_->columns.size(); ++c) {
    content.columns.push_back({spec_->columns[c], std::move(writer_.columns[c])});
  }
  content.tokens = writer_.tokens;
  content.target_tokens = writer_.targets;
  content.max_delay = writer_.max_age;
  selection.content = std::move(content);
  return selection;
}

}  // namespace overlord::plan
