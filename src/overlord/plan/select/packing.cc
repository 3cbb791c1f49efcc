#include "overlord/plan/select/packing.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/plan/select/selection.h"

namespace overlord::plan {

uint32_t count_targets(const Piece& piece, std::span<const model::LossSpan> spans) {
  OVERLORD_CHECK(uint64_t{piece.first} + piece.count <= piece.tokens,
                 "a piece is a run of its document");
  // As targets: the tokens after the first, and the next one where the document goes on.
  const uint64_t begin = uint64_t{piece.first} + 1;
  const uint64_t end = std::min<uint64_t>(begin + piece.count, piece.tokens);
  if (begin >= end) return 0;
  if (piece.mask == kUnmasked) return static_cast<uint32_t>(end - begin);
  auto span = std::partition_point(spans.begin(), spans.end(), [begin](const model::LossSpan& s) {
    return uint64_t{s.first} + s.count <= begin;
  });
  uint64_t targets = 0;
  for (; span != spans.end() && span->first < end; ++span) {
    const uint64_t span_end = uint64_t{span->first} + span->count;
    targets += std::min(end, span_end) - std::max<uint64_t>(begin, span->first);
  }
  return static_cast<uint32_t>(targets);
}

void BinWriter::reset(size_t sources, size_t bins, size_t column_count) {
  segments.clear();
  segments.reserve(usual_segments_ + usual_segments_ / 8);
  waits.clear();
  waits.reserve(segments.capacity());
  bin_ends.clear();
  bin_ends.reserve(bins);
  served.assign(sources, 0);
  tokens = 0;
  targets = 0;
  max_age = 0;
  masks_.clear();
  groups_.clear();
  columns.resize(column_count);
  for (std::vector<int64_t>& column : columns) column.clear();
  values_.clear();
}

uint32_t BinWriter::add_values() {
  OVERLORD_CHECK(!columns.empty(), "values of a job without columns");
  values_.resize(values_.size() + columns.size(), 0);
  return static_cast<uint32_t>(values_.size() / columns.size() - 1);
}

std::span<int64_t> BinWriter::values(uint32_t number) {
  OVERLORD_CHECK((size_t{number} + 1) * columns.size() <= values_.size(),
                 "values of a known document");
  return std::span(values_).subspan(size_t{number} * columns.size(), columns.size());
}

std::span<const int64_t> BinWriter::values(uint32_t number) const {
  return std::span(values_).subspan(size_t{number} * columns.size(), columns.size());
}

uint32_t BinWriter::add_mask(std::span<const model::LossSpan> spans) {
  masks_.push_back(spans);
  return static_cast<uint32_t>(masks_.size() - 1);
}

uint32_t BinWriter::add_group(std::vector<Piece> members) {
  groups_.push_back(std::move(members));
  return static_cast<uint32_t>(groups_.size() - 1);
}

void BinWriter::put(const Piece& piece) {
  if (piece.group == kNoGroup) return put_one(piece, false);
  bool joined = false;
  for (Piece member : groups_[piece.group]) {
    member.age = piece.age;
    put_one(member, std::exchange(joined, true));
  }
}

void BinWriter::put_one(const Piece& piece, bool joined) {
  const bool continues = uint64_t{piece.first} + piece.count < piece.tokens;
  const uint32_t piece_targets =
      piece.mask == kUnmasked ? piece.count - !continues : count_targets(piece, masks_[piece.mask]);
  OVERLORD_CHECK(piece.count > 0 && uint64_t{piece.first} + piece.count <= piece.tokens,
                 "a segment is a run of its document");
  const auto flags = static_cast<uint16_t>((continues ? model::Segment::kContinues : 0) |
                                           (joined ? model::Segment::kJoined : 0));
  segments.push_back({piece.id, piece.first, piece.count, 0, flags, piece_targets});
  waits.push_back(piece.age);
  const bool counts = piece.first == 0 && piece.values != kNoValues;
  for (size_t c = 0; c < columns.size(); ++c) {
    columns[c].push_back(counts ? values(piece.values)[c] : 0);
  }
  usual_segments_ = segments.size();
  served[piece.id.source] += piece.count;
  tokens += piece.count;
  targets += piece_targets;
  max_age = std::max(max_age, piece.age);
}

void LengthIndex::reset(uint32_t longest) {
  next_.clear();
  uint64_t words = longest;
  levels_ = 0;
  do {
    OVERLORD_CHECK(levels_ < kLevels, "too many lengths");
    words = (words + 63) / 64;
    bits_[levels_++].assign(words, 0);
  } while (words > 1);
  if (slots_ != longest) {
    slots_ = longest;
    heads_.assign(longest, 0);
    tails_.assign(longest, 0);
  }
}

void LengthIndex::push(uint32_t length, uint32_t item) {
  OVERLORD_CHECK(length > 0 && length <= slots_, "a length of the index");
  uint32_t slot = length - 1;
  if (item == next_.size()) {
    next_.push_back(0);
  } else if (item > next_.size()) {
    next_.resize(item + 1);
  }
  uint64_t& word = bits_[0][slot / 64];
  const uint64_t bit = uint64_t{1} << (slot % 64);
  if (word & bit) {
    next_[tails_[slot]] = item;
    tails_[slot] = item;
    return;
  }
  heads_[slot] = tails_[slot] = item;
  bool was_empty = word == 0;
  word |= bit;
  for (int level = 1; level < levels_ && was_empty; ++level) {
    slot /= 64;
    uint64_t& above = bits_[level][slot / 64];
    was_empty = above == 0;
    above |= uint64_t{1} << (slot % 64);
  }
}

uint32_t LengthIndex::find_at_most(uint32_t slot) const {
  // Up until a word has a bit at or (above the lowest level) below the way we came, then down
  // again.
  uint64_t word = bits_[0][slot / 64] & (~uint64_t{0} >> (63 - slot % 64));
  int level = 0;
  while (word == 0) {
    if (++level == levels_) return kNone;
    slot /= 64;
    word = bits_[level][slot / 64] & ((uint64_t{1} << (slot % 64)) - 1);
  }
  for (;;) {
    slot = slot / 64 * 64 + 63 - static_cast<uint32_t>(std::countl_zero(word));
    if (level-- == 0) return slot;
    word = bits_[level][slot];
    slot *= 64;
  }
}

uint32_t LengthIndex::find_at_least(uint32_t slot) const {
  uint64_t word = bits_[0][slot / 64] & (~uint64_t{0} << (slot % 64));
  int level = 0;
  while (word == 0) {
    if (++level == levels_) return kNone;
    slot /= 64;
    word = bits_[level][slot / 64] & (~uint64_t{1} << (slot % 64));
  }
  for (;;) {
    slot = slot / 64 * 64 + static_cast<uint32_t>(std::countr_zero(word));
    if (level-- == 0) return slot;
    word = bits_[level][slot];
    slot *= 64;
  }
}

uint32_t LengthIndex::pop(uint32_t slot) {
  const uint32_t item = heads_[slot];
  if (item != tails_[slot]) {
    heads_[slot] = next_[item];
    __builtin_prefetch(&next_[heads_[slot]]);  // read when this length is asked for again
    return item;
  }
  for (int level = 0; level < levels_; ++level) {
    uint64_t& word = bits_[level][slot / 64];
    word &= ~(uint64_t{1} << (slot % 64));
    if (word != 0) break;
    slot /= 64;
  }
  return item;
}

uint32_t LengthIndex::pop_at_most(uint32_t length, uint32_t* item_length) {
  if (length == 0) return kNoItem;
  const uint32_t slot = find_at_most(std::min(length, slots_) - 1);
  if (slot == kNone) return kNoItem;
  OVERLORD_CHECK(slot < length, "what is found is no longer than asked");
  if (item_length != nullptr) *item_length = slot + 1;
  return pop(slot);
}

uint32_t LengthIndex::pop_at_least(uint32_t length) {
  if (length > slots_) return kNoItem;
  const uint32_t slot = find_at_least(std::max(length, 1u) - 1);
  if (slot == kNone) return kNoItem;
  OVERLORD_CHECK(slot + 1 >= length, "what is found is no shorter than asked");
  return pop(slot);
}

void BestFitPool::reset(uint32_t context, uint32_t align) {
  OVERLORD_CHECK(align > 0 && context % align == 0, "align divides the context");
  align_ = align;
  bin_units_ = context / align;
  waiting_ = 0;
  pieces_.clear();
  forced_.clear();
  by_length_.reset(bin_units_);
}

void BestFitPool::add(const Piece& piece) {
  const uint32_t length = units(piece.count);
  by_length_.push(length, static_cast<uint32_t>(pieces_.size()));
  pieces_.push_back(piece);
  waiting_ += length;
}

void BestFitPool::add_forced(const Piece& piece) {
  OVERLORD_CHECK(piece.count > 0 && units(piece.count) <= bin_units_, "a piece fits an empty bin");
  forced_.push_back(static_cast<uint32_t>(pieces_.size()));
  pieces_.push_back(piece);
  waiting_ += units(piece.count);
}

void BestFitPool::open_bins(uint32_t bins) {
  gaps_.assign(bins, bin_units_);
  gaps_known_ = false;
}

bool BestFitPool::place(const Piece& piece) {
  pieces_.push_back(piece);
  waiting_ += units(piece.count);
  if (place_item(static_cast<uint32_t>(pieces_.size() - 1))) return true;
  waiting_ -= units(piece.count);
  pieces_.pop_back();
  return false;
}

void BestFitPool::place_forced() {
  if (forced_.empty()) return;
  // Largest first: then any total up to (bins + 1) / 2 contexts finds room (see selection.cc).
  forced_keys_.clear();
  for (const uint32_t item : forced_) {
    forced_keys_.push_back(uint64_t{~units(pieces_[item].count)} << 32 | item);
  }
  std::sort(forced_keys_.begin(), forced_keys_.end());
  for (size_t i = 0; i < forced_.size(); ++i) forced_[i] = static_cast<uint32_t>(forced_keys_[i]);
  std::erase_if(forced_, [this](uint32_t item) { return place_item(item); });
}

bool BestFitPool::place_item(uint32_t item) {
  if (!gaps_known_) {
    // Most steps force nothing, so the bins are only indexed when it is needed.
    gaps_known_ = true;
    by_gap_.reset(bin_units_);
    placed_heads_.assign(gaps_.size(), kNoItem);
    placed_tails_.assign(gaps_.size(), kNoItem);
    for (uint32_t bin = 0; bin < gaps_.size(); ++bin) by_gap_.push(gaps_[bin], bin);
  }
  const uint32_t length = units(pieces_[item].count);
  const uint32_t bin = by_gap_.pop_at_least(length);
  if (bin == kNoItem) return false;
  OVERLORD_CHECK(gaps_[bin] >= length, "a bin takes what it has room for");
  gaps_[bin] -= length;
  if (gaps_[bin] > 0) by_gap_.push(gaps_[bin], bin);
  if (item >= placed_next_.size()) placed_next_.resize(item + 1);
  placed_next_[item] = kNoItem;
  if (placed_heads_[bin] == kNoItem) {
    placed_heads_[bin] = item;
  } else {
    placed_next_[placed_tails_[bin]] = item;
  }
  placed_tails_[bin] = item;
  return true;
}

void BestFitPool::emit(uint32_t item, BinWriter* out) {
  Piece& piece = pieces_[item];
  OVERLORD_CHECK(piece.count > 0, "a piece is placed once");
  out->put(piece);
  waiting_ -= units(piece.count);
  piece.count = 0;
}

void BestFitPool::choose_items() {
  chosen_.clear();
  chosen_ends_.clear();
  for (uint32_t bin = 0; bin < gaps_.size(); ++bin) {
    if (gaps_known_) {
      for (uint32_t item = placed_heads_[bin]; item != kNoItem; item = placed_next_[item]) {
        chosen_.push_back(item);
      }
    }
    uint32_t gap = gaps_[bin], length = 0;
    for (uint32_t item; (item = by_length_.pop_at_most(gap, &length)) != kNoItem;) {
      gap -= length;
      chosen_.push_back(item);
    }
    chosen_ends_.push_back(static_cast<uint32_t>(chosen_.size()));
  }
}

// Choosing needs lengths only. The pieces lie anywhere in a memory larger than the caches, so they
// are asked for some items before they are written.
void BestFitPool::fill_bins(BinWriter* out) {
  constexpr size_t kItemsAhead = 12;
  choose_items();
  size_t at = 0;
  for (const uint32_t end : chosen_ends_) {
    for (; at < end; ++at) {
      if (at + kItemsAhead < chosen_.size()) {
        __builtin_prefetch(&pieces_[chosen_[at + kItemsAhead]], 1);
      }
      emit(chosen_[at], out);
    }
    out->end_bin();
  }
  OVERLORD_CHECK(at == chosen_.size(), "every chosen piece is in a bin");
}

}  // namespace overlord::plan
