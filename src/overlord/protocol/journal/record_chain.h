// The records of a journal as a chain: a start has its state whole, a plan only what it changed of
// those before it. So a record means something only behind those before it, up to its start.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "overlord/base/status.h"
#include "overlord/protocol/journal/journal_record.h"
#include "overlord/protocol/journal/state_difference.h"

namespace overlord::protocol {

// Of a state in a journal. Those of 306 sources have about 20 kB.
inline constexpr size_t kMostStateBytes = size_t{64} << 20;

// The states that a plan's record is a difference to; none before the first start.
class ChainedStates {
 public:
  bool any() const { return last_.has_value(); }
  StatesBefore before() const { return {*last_, earlier_}; }
  void begin(std::string state);
  void follow(std::string state);
  void forget() { last_.reset(); }

 private:
  std::optional<std::string> last_;
  std::string earlier_;
};

// Records are appended in the order in which they are written here. A start begins a new chain:
// what replaces a journal is written through the same writer.
class JournalWriter {
 public:
  // A plan needs a start before it.
  std::string write(const JournalRecord& record);

 private:
  StateDifferences differences_;
  ChainedStates states_;
};

// Gives records back with their states whole, in the order in which they were written.
class JournalReader {
 public:
  // kBadData: damaged, or a plan whose chain has no start or was broken by what was refused before;
  // kVersionMismatch: another format, naming both. A refused record breaks the chain: plans are
  // read again from the next start on.
  Result<JournalRecord> read(std::string_view bytes);

 private:
  Result<JournalRecord> read_next(std::string_view bytes);

  StateDifferences differences_;
  ChainedStates states_;  // none: no start yet, or the chain is broken
};

}  // namespace overlord::protocol
