// ScaleInputs: all that a decision about the slots of a source rests on. It is journalled with the
// decision, and deciding again from it gives the same (plan/partition/scaler.h).
#pragma once

#include <cstdint>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/ids.h"

namespace overlord::model {

// Why slots come and go: somebody wishes it; its workers were busy, or idle; the moving average of
// its share (the paper's); a turn of the mixture comes.
enum class ScaleRule : uint8_t { kWish, kLoad, kShare, kForesight };

struct ScaleInputs {
  ScaleRule rule = ScaleRule::kWish;
  uint32_t slots = 1;       // that read it when this was decided
  uint32_t most_slots = 1;  // it may have
  uint32_t workers = 1;     // of every slot
  uint32_t wished = 0;      // kWish
  // What the mixture asks of it, in thousandths of all: now; and at most until a slot that is added
  // now has something to give, or, where weights follow losses, on average.
  uint32_t share_now = 0, share_soon = 0;
  bool averaged = false;  // share_soon is an average
  // kLoad: workers that were at it on average, in thousandths; and slots that it wanted in the
  // intervals before, newest last.
  uint64_t busy_milli = 0;
  std::vector<uint32_t> wanted;
  // kShare: how many share, its average share with this interval, intervals in a row before it.
  uint32_t sources = 0;
  uint64_t average_share = 0;
  uint32_t above = 0, below = 0;
  // kForesight: of the step that asks most of it, the work of its part and of all sources; how long
  // a step takes now, 0: nobody knows yet; workers that all sources can have at most.
  StepIndex step = 0;
  uint64_t work_ns = 0, all_work_ns = 0, step_ns = 0;
  uint32_t room = 0;

  friend bool operator==(const ScaleInputs&, const ScaleInputs&) = default;

  OVERLORD_FIELDS(rule, slots, most_slots, workers, wished, share_now, share_soon, averaged,
                  busy_milli, wanted, sources, average_share, above, below, step, work_ns,
                  all_work_ns, step_ns, room)
};

}  // namespace overlord::model
