// The folder of a journal: files `term-TTTTTTTT.NNNNNNNN`, a term's segments by number from 1 on. A
// segment with a whole base tells everything, so the newest of those counts and older ones go.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/storage/file_operations.h"

namespace overlord::storage {

struct SegmentName {
  uint32_t term = 0;
  uint32_t number = 0;

  auto operator<=>(const SegmentName&) const = default;
  std::string text() const;
};

// Goes when a later base is durable: where neither is there, something was lost.
inline constexpr SegmentName kFirstSegment{1, 1};

std::optional<SegmentName> parse_segment_name(std::string_view text);

// Makes the folder, mode 0700, so that it outlives a power failure. One that is there must be ours
// and closed to other writers, or they could plant a journal.
Status prepare_journal_folder(const std::string& folder,
                              FileOperations& operations = FileOperations::real());

// In order, other files left out. A folder that is not there is kNotFound.
Result<std::vector<SegmentName>> list_segments(const std::string& folder);

struct JournalContents {
  std::vector<std::string> records;
  std::optional<SegmentName> segment;  // which tells them; none: nothing was ever durable
  uint64_t valid_bytes = 0;            // of it: the records end here
  uint64_t cut_bytes = 0;  // torn tail after them, and torn bases of later segments: never durable
};

struct SegmentInfo {
  SegmentName name;
  uint64_t size_bytes = 0;
};

struct JournalFolder {
  JournalContents contents;
  std::vector<SegmentInfo> segments;  // all that are there, in order
};

// Reads without changing anything, also while a planner writes. kNotFound: there is no journal.
// kBadData names file and offset where something durable is damaged; kVersionMismatch: another
// format.
Result<JournalFolder> read_journal(const std::string& folder);

}  // namespace overlord::storage
