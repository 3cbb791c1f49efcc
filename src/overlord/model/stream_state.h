// StreamState: all that the stream remembers between steps (law 7). Made with plan k, travels with
// it. Small: cursors, debts, what was drawn and not yet placed. Knows no mesh.
#pragma once

#include <cstdint>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/ids.h"
#include "overlord/model/mixture.h"
#include "overlord/model/sample_meta.h"

namespace overlord::model {

inline constexpr int kDebtBits = 20;  // fraction bits of a debt

struct SourceCursor {
  uint32_t pass = 0;
  uint64_t position = 0;  // next position to draw; FIFO, so one number
  int64_t debt = 0;       // asked minus drawn, kDebtBits to a unit (plan/mix/mixing.h)
  uint64_t samples = 0;   // drawn since step 0, all passes
  uint64_t tokens = 0;    // drawn since step 0
  uint64_t bad = 0;       // quarantined positions consumed
  uint64_t dropped = 0;   // documents dropped or cut off by `over_length`
  bool dry = false;       // reached its end under `drop` or `stop`

  friend bool operator==(const SourceCursor&, const SourceCursor&) = default;
};

// A document, or what is left of one, that was drawn and not yet placed.
struct Carried {
  SampleId id;
  uint32_t first = 0;   // first token not yet placed
  uint32_t tokens = 0;  // length of the whole document after truncation
  uint32_t end = 0;     // this piece is [first, end)
  StepIndex drawn_step =
      0;  // == next_step: the tail of a document that is being cut; it goes first
  std::vector<LossSpan> spans;  // of the whole document; empty: every token carries loss
  bool masked = false;
  std::vector<int64_t> columns = {};  // of JobSpec::columns; empty where the job has none
  bool joined = false;                // in one group with the one before it (Source::groups)

  friend bool operator==(const Carried&, const Carried&) = default;
};

// What the steps so far held. Unlike what cursors count, nothing that was drawn and is carried, and
// it stays when sources go.
struct StreamTotals {
  uint64_t sequences = 0;  // bins, empty ones too
  uint64_t samples = 0;    // documents that began
  uint64_t tokens = 0;

  friend bool operator==(const StreamTotals&, const StreamTotals&) = default;

  OVERLORD_FIELDS(sequences, samples, tokens)
};

struct StreamState {
  StepIndex next_step = 0;
  // Steps of the current window that are planned; all else is as it was at the window's start.
  uint32_t window_step = 0;
  std::vector<SourceCursor> cursors;  // by source index
  std::vector<Carried> carried;       // oldest first
  uint64_t leftover_dropped = 0;      // tokens dropped at the end by declaration
  bool ended = false;
  ControllerState controller;  // of a metric-driven mixture; as it was for the last step
  StreamTotals totals;
};

}  // namespace overlord::model
