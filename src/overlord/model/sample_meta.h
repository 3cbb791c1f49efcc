// SampleMeta, columnar: what the planner may know of samples before their payload is needed.
// One MetaWindow is one shuffle window of one source and pass, in the source's order.
// Final when posted (law 4): a later surprise is a hole in the batch, never another number here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/ids.h"

namespace overlord::model {

// A run of tokens of a document that carry loss, as input token indices [first, first + count):
// token i carries loss when it is a target.
struct LossSpan {
  uint32_t first = 0;
  uint32_t count = 0;

  friend bool operator==(const LossSpan&, const LossSpan&) = default;
};

// A row that was found bad, with the reason a person reads.
struct BadRow {
  uint32_t index = 0;  // in the window
  std::string reason;  // names source, shard and row

  OVERLORD_FIELDS(index, reason)
};

struct MetaColumn {  // per-modality lengths and named user columns
  std::string name;
  std::vector<int64_t> values;

  OVERLORD_FIELDS(name, values)
};

// The column with the bytes of each document's text, where the mixture counts bytes.
inline constexpr char kBytesColumn[] = "payload_bytes";
// In MetaWindow::tokens: a row of the source, but not of this sub-source (Source::filter).
inline constexpr uint32_t kPassedOver = 0xffffffffu;
// The same, of a row that is skipped as it is empty.
inline constexpr uint32_t kEmptyRow = 0xfffffffeu;

// Whether so many tokens of a row are a document, which may be drawn.
inline bool is_document(uint32_t tokens) {
  return tokens != 0 && tokens != kPassedOver && tokens != kEmptyRow;
}

struct MetaWindow {
  SampleId first;                   // source, pass, position of the first row
  std::vector<uint32_t> tokens;     // with bos and eod; 0: quarantined, the position is consumed
  std::vector<uint32_t> span_ends;  // masked sources: end of row i's spans in `spans`; else empty
  std::vector<LossSpan> spans;
  std::vector<MetaColumn> columns;
  std::vector<BadRow> bad;
  uint32_t generation = 1;           // of the loader slot that posted it
  std::vector<uint32_t> group_ends;  // sources with groups: end of row i's group; else empty

  uint64_t rows() const { return tokens.size(); }

  OVERLORD_FIELDS(first, tokens, span_ends, spans, columns, bad, generation, group_ends)
};

}  // namespace overlord::model
