#include "overlord/roles/planner/callouts.h"

namespace overlord::planner {

void RecordedCallouts::add(const protocol::JournalRecord& record) {
  if (const auto* callout = std::get_if<protocol::CalloutRecord>(&record)) {
    records_[{callout->step, callout->kind}] = *callout;
  }
}

void RecordedCallouts::ask(model::CalloutRequest request, CalloutDone done) {
  const auto found = records_.find({request.step, request.kind});
  if (found == records_.end()) {
    return done(Status(Code::kUserFunction, "the journal has no answer of this step"));
  }
  if (!(found->second.function == request.function)) {
    return done(Status(Code::kUserFunction, "the journal has the answer of " +
                                                found->second.function.name + " (version " +
                                                found->second.function.version + ")"));
  }
  done(found->second.values);
}

}  // namespace overlord::planner
