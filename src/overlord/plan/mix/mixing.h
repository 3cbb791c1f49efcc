// Mixer: which source gives the next document of a step, and which document that is.
//
// Exact quotas are stride scheduling. In virtual time v (units asked of all sources together; a
// unit is a token, a sample or a byte) source s with weight w of the total W is asked for v * w /
// W. A source is due when what it was asked for has caught up with what was drawn from it; the
// source that is due first gives its next document (of two, the lower index) and is charged its
// size. So at the end of every step no source is behind, and none is ahead by more than its last
// document. Multinomial quotas give one quantum (1024 tokens or bytes, or 1 sample) at a time to a
// source drawn by weight.
//
// debt = asked - drawn, 2^20 to a unit, lives in the cursors between steps; drawn is asked's units.
// Quarantined and dropped rows use up their position and nothing else. Rows are looked at before
// they are taken, so a caller may stop in front of a document that does not fit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "overlord/base/fixed_point.h"
#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/stream_state.h"
#include "overlord/plan/mix/meta_buffer.h"
#include "overlord/plan/mix/mix_schedule.h"

namespace overlord::plan {

using model::kDebtBits;
inline constexpr int64_t kDebtOne = int64_t{1} << kDebtBits;
inline constexpr uint32_t kQuantumTokens = 1024;  // of a multinomial draw; bytes as well

enum class Draw : uint8_t {
  kReady,   // document() is the next one
  kWait,    // need() has not been posted yet
  kOver,    // no source may give any more: a source with `stop` is dry, or all are
  kFailed,  // failure() says why
};

struct Document {
  SampleId id;
  uint32_t tokens = 0;  // after truncation; of a group all of its documents'
  bool truncated = false;
  uint64_t bytes = 0;  // of the kept part; only where the mixture counts bytes
  uint32_t row = 0;    // of `window`
  const model::MetaWindow* window = nullptr;
  uint32_t rows = 1;  // from `row` on, where they are a group
};

class Mixer {
 public:
  // Everything handed in must stay until finish(). Fails on a mixture that does not fit the
  // sources. `controller`: of a metric-driven mixture, as it is for this step.
  Status begin(const model::JobSpec& spec, std::span<const uint64_t> source_rows,
               std::span<const MetaBuffer> meta, std::span<const model::SourceCursor> cursors,
               StepIndex step, const model::ControllerState* controller = nullptr);
  // The documents from here on belong to this substep; its weights may be other ones.
  Status enter_substep(uint32_t substep);
  Draw next();
  const Document& document() const { return document_; }  // after kReady
  void take();                                            // consumes document()
  bool over() const { return over_; }
  const MetaNeed& need() const { return need_; }
  const Status& failure() const { return failure_; }
  // For a step that got no document: what kept each source from giving one.
  std::string why_nothing() const;
  // Settles the debts. `asked`: units this step asked of each source, rounded down so that the sums
  // over the steps are the running total rounded down.
  void finish(std::vector<model::SourceCursor>* cursors, std::vector<uint64_t>* asked);

 private:
  struct Lane {          // one source during a step
    int64_t weight = 0;  // 0: gives nothing
    Int128 stride = 0;   // virtual time that one unit stands for
    uint64_t drawn = 0;  // units since debts were last settled
    uint64_t rows = 0;
    const model::MetaWindow* window = nullptr;
    uint64_t row = 0;         // of the window: where the cursor stands
    bool ready = false;       // the row under the cursor is a document, or the first of a group
    uint32_t group_rows = 1;  // of what is ready
    uint32_t documents = 1;
    uint32_t tokens = 0;
    model::SourceCursor cursor;
    model::SourceCursor before;
    uint64_t units = 0;                             // given in this step
    const model::MetaWindow* bad_window = nullptr;  // the first bad row met in this step
    uint64_t bad_row = 0;
  };
  struct Due {
    Int128 time;
    SourceIndex source;
    uint32_t leaf;  // of the tournament
    bool operator<(const Due& other) const {
      return (time < other.time) | ((time == other.time) & (source < other.source));
    }
  };
  enum class Look : uint8_t { kDocument, kEnd, kWait, kFailed };

  Status set_weights();  // of the moment
  uint64_t units_of(const Document& document) const;
  // Bytes of the document in this row, of which `kept` tokens count; nothing: not told.
  std::optional<uint64_t> bytes_of(SourceIndex source, uint64_t row, uint32_t kept) const;
  bool weigh();  // sets the document's bytes where they count; false: failure()
  bool at_last_end(SourceIndex source) const;     // no further pass comes
  uint64_t rows_given(SourceIndex source) const;  // of the pass that the cursor is in
  void deal();    // starts a new count of virtual time among the sources that still give
  void settle();  // adds what was asked since deal() to the debts
  void hold_tournament(std::vector<Due> entrants);
  void replay(Due moved);  // the winner's new time: up its path against the losers there
  bool pick();             // sets picked_ to the source that is to give; false: none may
  bool pick_by_chance();
  Look look(SourceIndex source);     // moves a cursor to its next document
  Look look_at(SourceIndex source);  // what stands there: kDocument, kFailed, or kEnd: nothing
  Look count_bad(SourceIndex source, uint64_t row);
  Status too_many_bad(SourceIndex source) const;
  std::string first_bad(const Lane& lane) const;
  std::string why_barren(SourceIndex source) const;  // what its rows since the step's begin were
  void retire(SourceIndex source);

  const model::JobSpec* spec_ = nullptr;
  std::span<const MetaBuffer> meta_;
  MixMoment moment_;
  bool by_chance_ = false;
  bool over_ = false;
  std::vector<Lane> lanes_;
  std::vector<int64_t> weights_;
  int64_t total_weight_ = 0;
  Int128 now_ = 0;  // virtual time of the last document taken, since deal()
  // Exact quotas: the least due time, and by inner node (1 is the root, the children of n are 2n
  // and 2n + 1) who lost there. Unlike a heap's, a path up is known before anything is compared.
  Due winner_ = {};
  std::vector<Due> losers_;
  std::vector<uint64_t> weight_ends_;  // multinomial: running sums over all sources
  uint64_t key_ = 0;
  uint64_t draws_ = 0;
  SourceIndex owed_ = 0;  // multinomial: sources below owe nothing from an earlier step
  SourceIndex picked_ = 0;
  Document document_;
  MetaNeed need_;
  Status failure_;
};

}  // namespace overlord::plan
