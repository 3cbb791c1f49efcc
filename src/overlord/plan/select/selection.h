// Selection: what step k holds (law 2). Mix, draw, pack; reads no mesh, no clock, no buffer fill.
// Selector::step is the one door: state and posted metadata in, bins of segments and new state out.
//
// Words. A step is `substeps` times bins/substeps bins, packed one substep after the other. A piece
// is a whole document, or at most `context` tokens of one that is longer. Best fit draws pieces
// into a pool until it holds slack_permille more than the substep's bins; what stays in the pool is
// carried, with the step in which it was drawn. A group of documents that stay together is one
// piece, never cut. The tail of a document that is being cut waits
// outside the pool and before every other document; its pieces count as drawn when they are cut
// from it. There is never more than one, and Carried::drawn_step == StreamState::next_step tells it
// in the state.
//
// Delay. No piece is placed later than its drawing step + max_delay_steps. With 0 a document is
// drawn only when a bin takes it at once, so nothing but a cut document's tail is ever carried.
//
// End. The sources are spent when one with `stop` is dry or all with weight are. Then kDrain packs
// what is carried, step by step, until nothing is left; kDrop makes the first step that
// cannot be filled the last and counts what is left; kDropLast the one before it, so that a step is
// known to be the last only when the next one has been tried. A step that leaves nothing carried is
// the last if the next one would find the sources spent, so no step is ever without a document.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/plan.h"
#include "overlord/model/stream_state.h"
#include "overlord/plan/mix/meta_buffer.h"
#include "overlord/plan/mix/mix_controller.h"
#include "overlord/plan/mix/mixing.h"
#include "overlord/plan/select/packing.h"

namespace overlord::plan {

struct StepContent {
  std::vector<model::Segment> segments;  // in bin order
  std::vector<uint32_t> bin_ends;        // exactly JobSpec::bins_at(step); a bin may be empty
  uint64_t tokens = 0;
  uint64_t target_tokens = 0;
  // Per source, in the mixture's unit (tokens or samples): what the mixture asked of it in this
  // step. Drawn and asked differ by no more than a document; summed over steps it is the running
  // total rounded down.
  std::vector<uint64_t> asked;
  // Per source, always tokens: what this step's bins hold. What was drawn in this step may be
  // carried and come later, so asked and served of one step differ by the carry-over too.
  std::vector<uint64_t> served;
  // Of JobSpec::columns, one value per segment. What a document has counts with its first segment,
  // so that sums over segments are sums over documents.
  std::vector<model::MetaColumn> columns;
  uint32_t max_delay = 0;
  std::vector<uint32_t> waits;  // of each segment: steps from being drawn to being placed
  bool last = false;
};

struct Selection {
  std::optional<StepContent> content;  // absent: `needs` says what to wait for
  std::vector<MetaNeed> needs;
  model::StreamState after;  // valid with content
};

// Scratch is kept from call to call; calls do not influence each other.
class Selector {
 public:
  // `source_rows`: rows of each source (one pass). `meta`: one buffer per source, at or before its
  // cursor. Pure: equal arguments, equal result; nothing is drawn before all that the step needs is
  // posted, and `needs` names the first position that is not (one at a time: what comes after
  // depends on it). Fails with kBudgetExceeded (too many bad rows), kInvalidArgument (no source can
  // serve, or a spec that makes no sense), kStateMismatch (a state of another job). When the stream
  // has ended: kOutOfRange. `feedback`: of a metric-driven mixture, what feedback_needed() names
  // for this step.
  Result<Selection> step(const model::JobSpec& spec, std::span<const uint64_t> source_rows,
                         const model::StreamState& before, std::span<const MetaBuffer> meta,
                         const model::StepFeedback* feedback = nullptr);

 private:
  struct Tail {  // what is left of a document that is being cut
    SampleId id;
    uint32_t first = 0;
    uint32_t end = 0;
    uint32_t tokens = 0;
    uint32_t mask = kUnmasked;
    uint32_t values = kNoValues;
  };
  // Where a window has the job's columns; null: its source does not declare the column.
  struct WindowColumns {
    const model::MetaWindow* window = nullptr;
    std::vector<const model::MetaColumn*> columns;
  };
  enum class Outcome : uint8_t { kDone, kWait, kFailed, kCrowded };

  // What the step holds, in writer_ and mixer_.
  Outcome select(std::span<const uint64_t> source_rows, std::span<const MetaBuffer> meta);
  Outcome attempt(bool tight);
  Status steer(const model::StepFeedback* feedback);  // sets controller_
  Status begin(std::span<const uint64_t> source_rows, std::span<const MetaBuffer> meta);
  Status load_carried();
  // `after`: bins of the substep that follows, where those are fewer; else `bins`.
  Outcome pack_pool(uint32_t bins, uint32_t after, bool tight);
  Outcome pack_at_once(uint32_t bins);
  Outcome pack_in_order(uint32_t bins);
  Draw next_piece(uint32_t most);  // sets piece_, the next in line, of at most `most` tokens
  void take_piece();
  uint32_t values_of(const Document& document);
  Piece whole_piece(const Document& document);
  Piece group_piece(const Document& document);
  Piece piece_of(std::vector<Piece> members);  // a group of them, or the only one
  static Outcome stopped(Draw draw);
  Result<Selection> finish(std::span<const uint64_t> source_rows, std::span<const MetaBuffer> meta);
  void carry(model::StreamState* after) const;
  bool ends(const model::StreamState& after) const;
  // Sets content.last; kWait: need_ says for what.
  Outcome find_end(std::span<const uint64_t> source_rows, std::span<const MetaBuffer> meta,
                   const model::StreamState& after, bool* last);
  Outcome try_next(std::span<const uint64_t> source_rows, std::span<const MetaBuffer> meta,
                   const model::StreamState& after, bool* last);
  bool endless() const;
  Draw look_ahead(std::span<const uint64_t> source_rows, std::span<const MetaBuffer> meta,
                  const model::StreamState& after);

  const model::JobSpec* spec_ = nullptr;
  const model::StreamState* before_ = nullptr;
  model::ControllerState controller_;  // as it is for this step
  Status failure_;                     // beside the mixer's own
  bool filled_ = true;                 // no bin stayed short for want of documents
  Mixer mixer_;
  Mixer next_mixer_;                // of the step after, to see whether there is one
  std::unique_ptr<Selector> next_;  // the same, to see whether it can be filled
  MetaNeed need_;
  BestFitPool pool_;
  BinWriter writer_;
  std::vector<Tail> tails_;
  size_t tail_ = 0;  // the first of tails_ that is not used up
  Piece piece_;
  std::vector<WindowColumns> window_columns_;  // by source, of the window drawn from last
};

// The state before step 0.
model::StreamState initial_state(const model::JobSpec& spec);

}  // namespace overlord::plan
