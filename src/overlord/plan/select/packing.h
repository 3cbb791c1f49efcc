// Packing: pieces of documents into bins of `context` tokens.
//
// BestFitPool keeps documents whole. Pieces wait in a pool indexed by padded length; what has
// reached its delay cap is placed first, largest first, each into the fullest bin that takes it;
// then each bin is filled with the largest piece that fits, again and again. Both questions
// ("largest length at most this gap", "smallest gap at least this length") are a few bit scans in a
// LengthIndex. Concatenation and one document per bin need no pool; they are in selection.cc.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "overlord/base/ids.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/plan.h"
#include "overlord/model/sample_meta.h"

namespace overlord::plan {

inline constexpr uint32_t kUnmasked = 0xffffffffu;
inline constexpr uint32_t kNoItem = 0xffffffffu;
inline constexpr uint32_t kNoValues = 0xffffffffu;
inline constexpr uint32_t kNoGroup = 0xffffffffu;

// What goes into a bin at once: tokens [first, first + count) of a document of `tokens` tokens, or
// a group of whole documents, whose count is what they take with their padding.
struct Piece {
  SampleId id;
  uint32_t first = 0;
  uint32_t count = 0;
  uint32_t tokens = 0;
  uint32_t mask = kUnmasked;    // BinWriter's number of the document's loss spans
  uint32_t age = 0;             // steps since it was drawn
  uint32_t values = kNoValues;  // BinWriter's number of the document's metadata columns
  uint32_t group = kNoGroup;    // BinWriter's number of the group
};

// Tokens of [first, first + count) that carry loss. The target of token i is token i + 1 of the
// document, so the last token of a document has none. `spans` are sorted and apart.
uint32_t count_targets(const Piece& piece, std::span<const model::LossSpan> spans);

// Collects the bins of one step: segments in bin order and what they add up to.
struct BinWriter {
  // `column_count`: metadata columns of the job.
  void reset(size_t sources, size_t bins, size_t column_count = 0);
  uint32_t add_mask(std::span<const model::LossSpan> spans);
  std::span<const model::LossSpan> mask(uint32_t mask) const { return masks_[mask]; }
  // Room for a document's metadata columns, zeros, to be filled in.
  uint32_t add_values();
  std::span<int64_t> values(uint32_t number);
  std::span<const int64_t> values(uint32_t number) const;
  uint32_t add_group(std::vector<Piece> members);
  std::span<const Piece> group(uint32_t number) const { return groups_[number]; }
  void put(const Piece& piece);
  void end_bin() { bin_ends.push_back(static_cast<uint32_t>(segments.size())); }

  std::vector<model::Segment> segments;
  std::vector<uint32_t> bin_ends;
  std::vector<uint32_t> waits;   // by segment: steps since it was drawn
  std::vector<uint64_t> served;  // tokens by source
  // By column, one value per segment: the document's with its first segment, else 0.
  std::vector<std::vector<int64_t>> columns;
  uint64_t tokens = 0;
  uint64_t targets = 0;
  uint32_t max_age = 0;

 private:
  void put_one(const Piece& piece, bool joined);

  std::vector<std::vector<Piece>> groups_;
  std::vector<int64_t> values_;  // of documents, one after another
  std::vector<std::span<const model::LossSpan>> masks_;
  size_t usual_segments_ = 0;  // what the step before had: one allocation instead of many
};

// Items by length in [1, longest]: a FIFO for each length, and bits 64 to a word, words 64 to a
// word above, that tell which lengths have any.
class LengthIndex {
 public:
  void reset(uint32_t longest);
  void push(uint32_t length, uint32_t item);
  // Takes out the oldest item of the largest length <= `length`, or of the smallest >= it.
  uint32_t pop_at_most(uint32_t length, uint32_t* item_length = nullptr);
  uint32_t pop_at_least(uint32_t length);

 private:
  static constexpr uint32_t kNone = 0xffffffffu;
  static constexpr int kLevels = 6;  // 64^6 lengths

  uint32_t find_at_most(uint32_t slot) const;
  uint32_t find_at_least(uint32_t slot) const;
  uint32_t pop(uint32_t slot);

  int levels_ = 0;
  uint32_t slots_ = 0;
  std::array<std::vector<uint64_t>, kLevels> bits_;
  std::vector<uint32_t> heads_;  // by slot = length - 1; valid while its bit is set
  std::vector<uint32_t> tails_;
  std::vector<uint32_t> next_;  // by item
};

class BestFitPool {
 public:
  // `context` is a multiple of `align`. Empties the pool.
  void reset(uint32_t context, uint32_t align);
  void add(const Piece& piece);
  void add_forced(const Piece& piece);  // must go into the next bins that are filled
  // Padded tokens that wait.
  uint64_t waiting_tokens() const { return uint64_t{waiting_} * align_; }
  uint32_t padded(uint32_t count) const { return units(count) * align_; }

  // One (sub)step: open bins, place what must go or what is placed at once, fill the rest.
  void open_bins(uint32_t bins);
  bool place(const Piece& piece);  // into the fullest bin that takes it; false: none does
  void place_forced();             // those that find no room stay forced
  void fill_bins(BinWriter* out);

  // Pieces that were not placed, in the order in which they were added.
  template <typename Visit>
  void for_each_waiting(Visit visit) const {
    for (const Piece& piece : pieces_) {
      if (piece.count > 0) visit(piece);
    }
  }

 private:
  uint32_t units(uint32_t count) const {
    return align_ == 1 ? count : static_cast<uint32_t>((uint64_t{count} + align_ - 1) / align_);
  }
  bool place_item(uint32_t item);
  void choose_items();  // sets chosen_ and chosen_ends_
  void emit(uint32_t item, BinWriter* out);

  uint32_t align_ = 1;
  uint32_t bin_units_ = 0;  // lengths and gaps count in units of `align_` tokens
  uint64_t waiting_ = 0;
  std::vector<Piece> pieces_;  // all of the step in the order they came; count 0: placed
  LengthIndex by_length_;
  std::vector<uint32_t> forced_;  // items that are in no length's FIFO

  LengthIndex by_gap_;  // open bins; filled when the first piece is placed into one
  bool gaps_known_ = false;
  std::vector<uint32_t> gaps_;          // units free, by bin
  std::vector<uint32_t> placed_heads_;  // by bin: items placed before it is filled up
  std::vector<uint32_t> placed_tails_;
  std::vector<uint32_t> placed_next_;  // by item

  std::vector<uint32_t> chosen_;       // items of all open bins, one bin after another
  std::vector<uint32_t> chosen_ends_;  // by bin
  std::vector<uint64_t> forced_keys_;  // scratch of place_forced()
};

}  // namespace overlord::plan
