#include "overlord/plan/mix/mixing.h"

#include <algorithm>
#include <string>

#include "overlord/base/check.h"
#include "overlord/base/rng.h"

namespace overlord::plan {
namespace {

using model::EndPolicy;
using model::OverLength;
using model::SourceCursor;

// Virtual time counts 2^32 to a unit. With steps below 2^34 units, 2^16 sources and weights up to
// kMaxWeight = 2^44 a time stays below 2^(34+16+32) and its product with a weight below 2^126.
constexpr int kTimeBits = 32;
// A share below 2^-38 is served as 2^-38: debt (< 2^52) times stride must fit 128 bits as well.
constexpr Int128 kLongestStride = Int128{1} << (kTimeBits + 38);

}  // namespace

Status Mixer::begin(const model::JobSpec& spec, std::span<const uint64_t> source_rows,
                    std::span<const MetaBuffer> meta, std::span<const SourceCursor> cursors,
                    StepIndex step, const model::ControllerState* controller) {
  const size_t sources = spec.sources.size();
  OVERLORD_CHECK(source_rows.size() == sources && meta.size() == sources, "one of each per source");
  if (cursors.size() != sources) {
    return {Code::kStateMismatch,
            "state and job differ in their number of sources: " + std::to_string(cursors.size()) +
                " and " + std::to_string(sources)};
  }
  spec_ = &spec;
  meta_ = meta;
  moment_ = {step, 0, epoch_at(spec.mixture, source_rows, cursors, step), controller};
  by_chance_ = spec.mixture.quota == model::Quota::kMultinomial;
  over_ = false;
  draws_ = 0;
  owed_ = 0;
  picked_ = 0;
  key_ = derive_key(spec.seed, "mixture");
  failure_ = Status();
  lanes_.assign(sources, Lane());
  for (size_t s = 0; s < sources; ++s) {
    lanes_[s].rows = source_rows[s];
    lanes_[s].cursor = lanes_[s].before = cursors[s];
    // What ended by `stop` stays ended: the steps that drain the carry-over draw nothing.
    if (cursors[s].dry && spec.sources[s].at_end == EndPolicy::kStop) over_ = true;
  }
  OVERLORD_RETURN_IF_ERROR(check_stages_at(spec, moment_));
  OVERLORD_RETURN_IF_ERROR(set_weights());
  deal();
  return Status();
}

Status Mixer::enter_substep(uint32_t substep) {
  moment_.substep = substep;
  if (substep == 0 || spec_->mixture.grain != model::Grain::kSubstep) return Status();
  settle();  // what was asked until now was asked under the old weights
  OVERLORD_RETURN_IF_ERROR(set_weights());
  deal();
  return Status();
}

Status Mixer::set_weights() {
  weights_at(*spec_, moment_, &weights_);
  OVERLORD_CHECK(weights_.size() == lanes_.size(), "one weight per source");
  bool any = false;
  for (size_t s = 0; s < weights_.size(); ++s) {
    any = any || weights_[s] > 0;
    lanes_[s].weight = lanes_[s].cursor.dry ? 0 : weights_[s];
  }
  if (any) return Status();
  return invalid_argument("no source has a weight in the stage of step " +
                          std::to_string(moment_.step));
}

uint64_t Mixer::units_of(const Document& document) const {
  switch (spec_->mixture.unit) {
    case model::MixUnit::kTokens:
      return document.tokens;
    case model::MixUnit::kSamples:
      return lanes_[document.id.source].documents;
    case model::MixUnit::kBytes:
      return document.bytes;
  }
  return 1;
}

std::optional<uint64_t> Mixer::bytes_of(SourceIndex source, uint64_t row, uint32_t kept) const {
  const model::Source& declared = spec_->sources[source];
  if (tokens_tell_bytes(declared)) return payload_bytes(declared, kept);
  const Lane& lane = lanes_[source];
  for (const model::MetaColumn& column : lane.window->columns) {
    if (column.name != model::kBytesColumn) continue;
    OVERLORD_CHECK(lane.window->tokens[row] > 0 && kept <= lane.window->tokens[row],
                   "what is kept of a document is a part of it");
    // Of a truncated document its share, so that what is cut off is not paid for.
    const Int128 part = Int128{column.values[row]} * kept / lane.window->tokens[row];
    return static_cast<uint64_t>(std::max<Int128>(part, 1));
  }
  return std::nullopt;
}

bool Mixer::at_last_end(SourceIndex source) const {
  if (spec_->sources[source].at_end != EndPolicy::kRepeat) return true;
  const std::vector<uint32_t>& caps = spec_->mixture.max_passes;
  const std::vector<int64_t>& parts = spec_->mixture.part_passes;
  if (!parts.empty() && parts[source] > 0) return lanes_[source].cursor.pass >= caps[source];
  return !caps.empty() && caps[source] > 0 && lanes_[source].cursor.pass + 1 >= caps[source];
}

uint64_t Mixer::rows_given(SourceIndex source) const {
  const Lane& lane = lanes_[source];
  const std::vector<int64_t>& parts = spec_->mixture.part_passes;
  if (parts.empty() || parts[source] == 0) return lane.rows;
  if (lane.cursor.pass < spec_->mixture.max_passes[source]) return lane.rows;
  const Uint128 rows = Uint128{lane.rows} * static_cast<uint64_t>(parts[source]);
  return std::max<uint64_t>(static_cast<uint64_t>(rows / model::kWeightOne), 1);
}

void Mixer::deal() {
  now_ = 0;
  total_weight_ = 0;
  losers_.clear();
  weight_ends_.clear();
  for (const Lane& lane : lanes_) {
    total_weight_ += lane.weight;
    if (by_chance_) weight_ends_.push_back(static_cast<uint64_t>(total_weight_));
  }
  if (by_chance_) return;
  std::vector<Due> entrants;
  for (size_t s = 0; s < lanes_.size(); ++s) {
    Lane& lane = lanes_[s];
    if (lane.weight == 0) continue;
    lane.stride = std::min((Int128{total_weight_} << kTimeBits) / lane.weight, kLongestStride);
    lane.drawn = 0;
    entrants.push_back({(-Int128{lane.cursor.debt} * lane.stride) >> kDebtBits,
                        static_cast<SourceIndex>(s), static_cast<uint32_t>(entrants.size())});
  }
  hold_tournament(std::move(entrants));
}

void Mixer::settle() {
  if (by_chance_) return;
  for (Lane& lane : lanes_) {
    if (lane.weight == 0) continue;
    const Int128 asked = floor_div(now_ * lane.weight, total_weight_) >> (kTimeBits - kDebtBits);
    const Int128 change = asked - (Int128{lane.drawn} << kDebtBits);
    OVERLORD_CHECK(lane.weight <= total_weight_ && fits_int64(change), "weights are dealt first");
    lane.cursor.debt += static_cast<int64_t>(change);
    lane.drawn = 0;
  }
  now_ = 0;
}

void Mixer::hold_tournament(std::vector<Due> entrants) {
  const size_t count = entrants.size();
  if (count == 0) return;
  losers_.resize(count);
  std::vector<Due> winners(count);  // by inner node
  const auto winner_of = [&](size_t node) {
    return node >= count ? entrants[node - count] : winners[node];
  };
  for (size_t node = count - 1; node >= 1; --node) {
    const Due one = winner_of(2 * node), other = winner_of(2 * node + 1);
    winners[node] = one < other ? one : other;
    losers_[node] = one < other ? other : one;
  }
  winner_ = winner_of(1);
  OVERLORD_CHECK(count == 1 || !(losers_[1] < winner_), "the winner is due first");
}

// Who goes on is as good as chance and asked nine times for every document of 300 sources, so they
// change places by a mask instead of a branch.
void Mixer::replay(Due moved) {
  OVERLORD_CHECK(moved.leaf < losers_.size(), "who moves is in the tournament");
  for (size_t node = (losers_.size() + moved.leaf) / 2; node >= 1; node /= 2) {
    Due& loser = losers_[node];
    const bool is_less = loser < moved;
    const Int128 time = (loser.time ^ moved.time) & -Int128{is_less};
    const uint32_t mask = uint32_t{0} - uint32_t{is_less};
    const uint32_t source = (loser.source ^ moved.source) & mask;
    const uint32_t leaf = (loser.leaf ^ moved.leaf) & mask;
    loser = {loser.time ^ time, loser.source ^ source, loser.leaf ^ leaf};
    moved = {moved.time ^ time, moved.source ^ source, moved.leaf ^ leaf};
  }
  winner_ = moved;
  OVERLORD_CHECK(losers_.size() == 1 || !(losers_[1] < winner_), "the winner is due first");
}

bool Mixer::pick() {
  if (total_weight_ == 0) return false;
  if (by_chance_) return pick_by_chance();
  picked_ = winner_.source;
  OVERLORD_CHECK(lanes_[picked_].weight > 0, "a source without weight gives nothing");
  return true;
}

bool Mixer::pick_by_chance() {
  // Who was given a quantum and has not used it up goes on, also over the end of a step.
  for (; owed_ < lanes_.size(); ++owed_) {
    if (lanes_[owed_].weight > 0 && lanes_[owed_].cursor.debt > 0) {
      picked_ = owed_;
      return true;
    }
  }
  // A source that is far ahead may need several quanta before it owes a document again.
  while (lanes_[picked_].weight == 0 || lanes_[picked_].cursor.debt <= 0) {
    const uint64_t point =
        uniform_below(key_, moment_.step, draws_++, static_cast<uint64_t>(total_weight_));
    const auto end = std::upper_bound(weight_ends_.begin(), weight_ends_.end(), point);
    picked_ = static_cast<SourceIndex>(end - weight_ends_.begin());
    OVERLORD_CHECK(picked_ < lanes_.size() && lanes_[picked_].weight > 0,
                   "a point below the total is of a source");
    const bool whole = spec_->mixture.unit == model::MixUnit::kSamples;
    lanes_[picked_].cursor.debt += (whole ? 1 : kQuantumTokens) * kDebtOne;
  }
  return true;
}

Draw Mixer::next() {
  while (!over_ && pick()) {
    Lane& lane = lanes_[picked_];
    const Look found = lane.ready ? Look::kDocument : look(picked_);
    switch (found) {
      case Look::kDocument: {
        lane.ready = true;
        const uint32_t tokens = lane.tokens;
        OVERLORD_CHECK(lane.window->first.position + lane.row == lane.cursor.position,
                       "the row under the cursor is looked at");
        document_.id = {picked_, lane.cursor.pass, lane.cursor.position};
        document_.truncated =
            tokens > spec_->context && spec_->sources[picked_].over_length == OverLength::kTruncate;
        document_.rows = lane.group_rows;
        document_.tokens = document_.truncated ? spec_->context : tokens;
        document_.row = static_cast<uint32_t>(lane.row);
        document_.window = lane.window;
        return weigh() ? Draw::kReady : Draw::kFailed;
      }
      case Look::kEnd:
        retire(picked_);
        break;
      case Look::kWait:
        need_ = {picked_, lane.cursor.pass, lane.cursor.position};
        return Draw::kWait;
      case Look::kFailed:
        return Draw::kFailed;
    }
  }
  over_ = true;
  return Draw::kOver;
}

bool Mixer::weigh() {
  if (spec_->mixture.unit != model::MixUnit::kBytes) return true;
  const Lane& lane = lanes_[picked_];
  std::optional<uint64_t> bytes = 0;
  for (uint64_t row = lane.row; row < lane.row + lane.group_rows && bytes; ++row) {
    const uint32_t tokens = lane.window->tokens[row];
    if (lane.group_rows > 1 && !model::is_document(tokens)) continue;
    const auto more = bytes_of(picked_, row, std::min(tokens, document_.tokens));
    bytes = more ? std::optional(*bytes + *more) : std::nullopt;
  }
  if (!bytes) {
    failure_ = invalid_argument("mixture: unit bytes needs the bytes of every document, and the " +
                                std::string("metadata of source ") + spec_->sources[picked_].name +
                                " has none; use tokens or samples");
    return false;
  }
  document_.bytes = *bytes;
  return true;
}

void Mixer::take() {
  Lane& lane = lanes_[picked_];
  OVERLORD_CHECK(lane.ready, "take() without a document");
  OVERLORD_CHECK(lane.cursor.position < lane.rows, "a document lies in its pass");
  const SampleId at{picked_, lane.cursor.pass, lane.cursor.position};
  OVERLORD_CHECK(document_.id == at, "what is taken is what was looked at");
  lane.ready = false;
  lane.row += lane.group_rows;
  lane.cursor.position += lane.group_rows;
  lane.cursor.samples += lane.documents;
  lane.cursor.tokens += document_.tokens;
  lane.cursor.dropped += document_.truncated;
  const uint64_t units = units_of(document_);
  OVERLORD_CHECK(units > 0, "a document moves virtual time");
  lane.units += units;
  if (by_chance_) {
    lane.cursor.debt -= static_cast<int64_t>(units) * kDebtOne;
    return;
  }
  now_ = std::max(now_, winner_.time);
  lane.drawn += units;
  replay({winner_.time + lane.stride * units, winner_.source, winner_.leaf});
}

Mixer::Look Mixer::look(SourceIndex source) {
  Lane& lane = lanes_[source];
  SourceCursor& cursor = lane.cursor;
  const model::Source& declared = spec_->sources[source];
  uint64_t barren = 0;  // positions passed since the last document
  for (;; ++lane.row, ++cursor.position, ++barren) {
    if (cursor.position >= rows_given(source)) {
      if (at_last_end(source)) return Look::kEnd;
      if (barren >= lane.rows) {
        failure_ = invalid_argument("a whole pass holds no document to draw: source " +
                                    declared.name + ": " + why_barren(source));
        return Look::kFailed;
      }
      ++cursor.pass;
      cursor.position = 0;
      lane.window = nullptr;
    }
    if (lane.window == nullptr || lane.row >= lane.window->tokens.size()) {
      lane.window = meta_[source].find(cursor.pass, cursor.position);
      if (lane.window == nullptr) return Look::kWait;
      lane.row = cursor.position - lane.window->first.position;
      OVERLORD_CHECK(lane.row < lane.window->rows(), "the window holds the position");
    }
    const Look found = look_at(source);
    if (found != Look::kEnd) return found;
    const uint64_t more = lane.group_rows - 1;  // the loop steps over one
    lane.row += more;
    cursor.position += more;
    barren += more;
  }
}

// A group is drawn whole or not at all: it must fit a sequence, and all of its rows must be good.
Mixer::Look Mixer::look_at(SourceIndex source) {
  Lane& lane = lanes_[source];
  const model::MetaWindow& window = *lane.window;
  const bool grouped = !window.group_ends.empty();
  const uint64_t end = grouped ? window.group_ends[lane.row] : lane.row + 1;
  lane.group_rows = static_cast<uint32_t>(end - lane.row);
  lane.documents = 0;
  uint64_t tokens = 0, padded = 0;
  bool good = true;
  for (uint64_t row = lane.row; row < end; ++row) {
    const uint32_t own = window.tokens[row];
    if (own == 0) {
      good = false;
      if (count_bad(source, row) == Look::kFailed) return Look::kFailed;
    }
    if (!model::is_document(own)) continue;
    ++lane.documents;
    tokens += own;
    padded += round_up(own, spec_->align);
  }
  if (lane.documents == 0) return Look::kEnd;
  const bool drops = grouped || spec_->sources[source].over_length == OverLength::kDrop;
  if (!good || (drops && (grouped ? padded : tokens) > spec_->context)) {
    lane.cursor.dropped += lane.documents;
    return Look::kEnd;
  }
  lane.tokens = static_cast<uint32_t>(tokens);
  return Look::kDocument;
}

Mixer::Look Mixer::count_bad(SourceIndex source, uint64_t row) {
  Lane& lane = lanes_[source];
  if (lane.bad_window == nullptr) {
    lane.bad_window = lane.window;
    lane.bad_row = row;
  }
  if (++lane.cursor.bad <= model::bad_rows_budget(spec_->sources[source], lane.cursor.pass)) {
    return Look::kEnd;
  }
  failure_ = too_many_bad(source);
  return Look::kFailed;
}

Status Mixer::too_many_bad(SourceIndex source) const {
  const Lane& lane = lanes_[source];
  const SampleId& first = lane.bad_window->first;
  return {Code::kBudgetExceeded,
          "more bad rows than allowed: source " + spec_->sources[source].name + ", allowed " +
              std::to_string(spec_->sources[source].bad_rows_allowed) + " a pass, first of step " +
              std::to_string(moment_.step) + " at pass " + std::to_string(first.pass) +
              ", position " + std::to_string(first.position + lane.bad_row) + ": " +
              first_bad(lane) + "; raise bad_rows_allowed or repair the data"};
}

std::string Mixer::first_bad(const Lane& lane) const {
  for (const model::BadRow& bad : lane.bad_window->bad) {
    if (bad.index == lane.bad_row) return bad.reason;
  }
  return "no reason was given";
}

std::string Mixer::why_barren(SourceIndex source) const {
  const Lane& lane = lanes_[source];
  const uint64_t bad = lane.cursor.bad - lane.before.bad;
  const uint64_t dropped = lane.cursor.dropped - lane.before.dropped;
  const uint64_t passes = lane.cursor.pass - lane.before.pass;
  const uint64_t seen = passes * lane.rows + lane.cursor.position - lane.before.position;
  std::string out = "of " + std::to_string(seen) + " rows none can be used";
  if (dropped > 0) {
    out += ", " + std::to_string(dropped) +
           " are longer than context = " + std::to_string(spec_->context) + " (over_length: drop)";
  }
  const uint64_t known = bad + dropped + lane.cursor.samples - lane.before.samples;
  if (seen > known) {
    out += ", " + std::to_string(seen - known) + " belong to other parts of its split";
  }
  if (bad > 0) out += ", " + std::to_string(bad) + " are bad, the first: " + first_bad(lane);
  return out;
}

std::string Mixer::why_nothing() const {
  constexpr size_t kShown = 8;
  std::string out, stopped_by;
  for (size_t s = 0; s < lanes_.size(); ++s) {
    const bool stops = spec_->sources[s].at_end == EndPolicy::kStop;
    if (lanes_[s].cursor.dry && stops) stopped_by = spec_->sources[s].name;
  }
  for (size_t s = 0; s < std::min(lanes_.size(), kShown); ++s) {
    out += "; source " + spec_->sources[s].name + ": ";
    if (weights_[s] == 0) {
      out += "its weight is 0 at step " + std::to_string(moment_.step);
    } else if (lanes_[s].cursor.dry) {
      out += why_barren(static_cast<SourceIndex>(s));
    } else {
      out += "not asked, as source " + stopped_by + " ended the stream (at_end: stop)";
    }
  }
  if (lanes_.size() > kShown) {
    out += "; and " + std::to_string(lanes_.size() - kShown) + " more sources";
  }
  return out.substr(2);
}

void Mixer::retire(SourceIndex source) {
  OVERLORD_CHECK(!lanes_[source].cursor.dry, "a source retires once");
  // What the others were asked for until now was asked under the old total.
  if (!by_chance_) now_ = std::max(now_, winner_.time);
  settle();
  lanes_[source].cursor.dry = true;
  if (spec_->sources[source].at_end == EndPolicy::kStop) over_ = true;
  lanes_[source].weight = 0;
  deal();
}

void Mixer::finish(std::vector<SourceCursor>* cursors, std::vector<uint64_t>* asked) {
  settle();
  cursors->resize(lanes_.size());
  asked->resize(lanes_.size());
  for (size_t s = 0; s < lanes_.size(); ++s) {
    const SourceCursor& before = lanes_[s].before;
    const SourceCursor& after = lanes_[s].cursor;
    const int64_t owed = (after.debt >> kDebtBits) - (before.debt >> kDebtBits);
    OVERLORD_CHECK(after.pass > before.pass ||
                       (after.pass == before.pass && after.position >= before.position),
                   "a cursor never goes back");
    OVERLORD_CHECK(after.tokens - before.tokens >= after.samples - before.samples,
                   "a document has a token");
    OVERLORD_CHECK(static_cast<int64_t>(lanes_[s].units) + owed >= 0,
                   "nothing that was asked is taken back");
    (*asked)[s] = lanes_[s].units + static_cast<uint64_t>(owed);
    (*cursors)[s] = after;
  }
}

}  // namespace overlord::plan
