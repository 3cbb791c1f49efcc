#include "overlord/protocol/journal/record_chain.h"

#include <utility>

#include "overlord/base/check.h"

namespace overlord::protocol {

void ChainedStates::begin(std::string state) {
  last_ = std::move(state);
  earlier_.clear();
}

void ChainedStates::follow(std::string state) {
  earlier_ = std::exchange(*last_, std::move(state));
}

std::string JournalWriter::write(const JournalRecord& record) {
  if (const auto* start = std::get_if<JournalStart>(&record)) {
    OVERLORD_CHECK(start->state.size() <= kMostStateBytes, "a state that a reader takes");
    states_.begin(start->state);
  }
  const auto* plan = std::get_if<PlanRecord>(&record);
  if (plan == nullptr) return encode_record(record);
  OVERLORD_CHECK(states_.any(), "a plan is written behind a start");
  OVERLORD_CHECK(plan->state_after.size() <= kMostStateBytes, "a state that a reader takes");
  PlanRecord written = *plan;
  written.state_after = differences_.difference(states_.before(), plan->state_after);
  states_.follow(plan->state_after);
  return encode_record(std::move(written));
}

Result<JournalRecord> JournalReader::read(std::string_view bytes) {
  Result<JournalRecord> record = read_next(bytes);
  // Whatever it was, it may have been a plan: those behind it have nothing to stand on.
  if (!record.ok()) states_.forget();
  return record;
}

Result<JournalRecord> JournalReader::read_next(std::string_view bytes) {
  OVERLORD_TRY(JournalRecord record, decode_record(bytes));
  if (const auto* start = std::get_if<JournalStart>(&record)) {
    if (start->state.size() > kMostStateBytes) {
      return bad_data("journal record: a start with a state of " +
                      std::to_string(start->state.size()) + " bytes, at most " +
                      std::to_string(kMostStateBytes) + " are read");
    }
    states_.begin(start->state);
  }
  auto* plan = std::get_if<PlanRecord>(&record);
  if (plan == nullptr) return record;
  const std::string where = "journal record: plan of step " + std::to_string(plan->step);
  if (!states_.any()) {
    return bad_data(where + ": no start before it, or a record between them could not be read");
  }
  auto after = differences_.apply_difference(states_.before(), plan->state_after, kMostStateBytes);
  if (!after.ok()) return after.status().with_context(where);
  plan->state_after = std::move(after).value();
  states_.follow(plan->state_after);
  return record;
}

}  // namespace overlord::protocol
