#include "overlord/protocol/journal/cursor_columns.h"

#include <bit>
#include <cstddef>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"
#include "overlord/model/stream_state.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::protocol {
namespace {

// What sources are asked for is counted in: nothing that a cursor has, samples or tokens.
constexpr size_t kUnits[] = {kCursorNumbers, kSamples, kTokens};

// Numbers wrap around: those of damaged records are as good as any.
uint64_t unfolded(uint64_t zigzag) { return (zigzag >> 1) ^ (uint64_t{0} - (zigzag & 1)); }
uint64_t folded(uint64_t number) { return (number << 1) ^ (uint64_t{0} - (number >> 63)); }

uint64_t moved(const CursorNumbers& from, const CursorNumbers& to, size_t at) {
  return to[at] - from[at];
}

// By `unit` and to the fraction of a debt.
uint64_t drawn(const CursorNumbers& from, const CursorNumbers& to, size_t cursor, size_t unit) {
  if (unit == kCursorNumbers) return 0;
  return moved(from, to, cursor + unit) << model::kDebtBits;
}

// Of every source by one step.
std::vector<uint64_t> asked(const CursorNumbers& from, const CursorNumbers& to, size_t unit) {
  std::vector<uint64_t> found;
  for (size_t c = 0; c < to.size(); c += kCursorNumbers) {
    const uint64_t debt = unfolded(to[c + kDebt]) - unfolded(from[c + kDebt]);
    found.push_back(debt + drawn(from, to, c, unit));
  }
  return found;
}

uint64_t sum(const std::vector<uint64_t>& numbers) {
  uint64_t total = 0;
  for (const uint64_t number : numbers) total += number;
  return total;
}

// What the step before asked, scaled to all that this one asked.
class Guess {
 public:
  Guess(const CursorNumbers& earlier, const CursorNumbers& before, size_t unit, uint64_t total)
      : total_(static_cast<int64_t>(total)) {
    if (!earlier.empty()) asked_ = asked(earlier, before, unit);
    total_then_ = static_cast<int64_t>(sum(asked_));
  }

  uint64_t operator[](size_t source) const {
    if (total_then_ <= 0) return 0;
    const auto then = static_cast<int64_t>(asked_[source]);
    return static_cast<uint64_t>(Int128{then} * total_ / total_then_);
  }

 private:
  std::vector<uint64_t> asked_;
  int64_t total_, total_then_ = 0;
};

struct Debts {
  size_t unit = 0;  // of kUnits
  uint64_t total = 0;
  std::vector<uint64_t> beside;  // how far each guess was off

  size_t bits() const {
    size_t bits = 0;
    for (const uint64_t off : beside) bits += static_cast<size_t>(std::bit_width(folded(off)));
    return bits;
  }
};

Debts debts_in(size_t unit, const CursorNumbers& earlier, const CursorNumbers& before,
               const CursorNumbers& after) {
  Debts debts{unit, 0, asked(before, after, kUnits[unit])};
  debts.total = sum(debts.beside);
  const Guess guess(earlier, before, kUnits[unit], debts.total);
  for (size_t s = 0; s < debts.beside.size(); ++s) debts.beside[s] -= guess[s];
  return debts;
}

}  // namespace

void write_columns(ByteWriter* writer, const CursorNumbers& earlier, const CursorNumbers& before,
                   const CursorNumbers& after) {
  OVERLORD_CHECK(
      after.size() == before.size() && (earlier.empty() || earlier.size() == before.size()),
      "states of as many sources");
  for (size_t column = 0; column < kCursorNumbers; ++column) {
    if (column == kDebt) continue;  // needs the others
    for (size_t i = column; i < after.size(); i += kCursorNumbers) {
      writer->varint(folded(moved(before, after, i)));
    }
  }
  Debts best = debts_in(0, earlier, before, after);
  for (size_t unit = 1; unit < std::size(kUnits); ++unit) {
    Debts debts = debts_in(unit, earlier, before, after);
    if (debts.bits() < best.bits()) best = std::move(debts);
  }
  writer->varint(best.unit);
  writer->varint(folded(best.total));
  for (const uint64_t off : best.beside) writer->varint(folded(off));
}

CursorNumbers read_columns(ByteReader* reader, const CursorNumbers& earlier,
                           const CursorNumbers& before) {
  CursorNumbers after = before;
  for (size_t column = 0; column < kCursorNumbers; ++column) {
    if (column == kDebt) continue;
    for (size_t i = column; i < after.size(); i += kCursorNumbers) {
      after[i] += unfolded(reader->varint());
    }
  }
  const uint64_t written = reader->varint();
  const size_t unit = kUnits[written % std::size(kUnits)];
  const Guess guess(earlier, before, unit, unfolded(reader->varint()));
  for (size_t c = 0; c < after.size(); c += kCursorNumbers) {
    const uint64_t asked = unfolded(reader->varint()) + guess[c / kCursorNumbers];
    const uint64_t debt = unfolded(before[c + kDebt]) + asked - drawn(before, after, c, unit);
    after[c + kDebt] = folded(debt);
  }
  return after;
}

}  // namespace overlord::protocol
