// JournalFold: what the records of a journal come to. A planner feeds it every record that has
// become durable, and writes what it says when the journal is compacted; the next planner makes it
// from the journal and goes on from there. So both are the same by construction (law 6).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/check.h"
#include "overlord/base/status.h"
#include "overlord/protocol/journal/journal_record.h"

namespace overlord::planner {

class JournalFold {
 public:
  // In the order of the journal. kBadData, naming the record, where one cannot follow what is
  // there.
  Status apply(const protocol::JournalRecord& record);
  // A planner goes on in another term, which its start says from now on.
  void open_term(const model::Versions& versions);
  // Records that fold to the same.
  std::vector<protocol::JournalRecord> records() const;

  // Nothing else means anything before a start has been applied.
  bool started() const { return start_.has_value(); }
  // Of the newest start; `state` and chains are those before the first plan that is kept: the
  // oldest that somebody may still ask for.
  const protocol::JournalStart& start() const {
    OVERLORD_CHECK(started(), "a fold without a start is of no stream");
    return *start_;
  }
  const std::deque<protocol::PlanRecord>& plans() const { return plans_; }
  StepIndex base_step() const { return base_step_; }  // of start().state
  StepIndex next_step() const { return base_step_ + plans_.size(); }
  const std::map<SampleId, protocol::LateBadRecord>& late_bad() const { return late_bad_; }
  const std::map<StepIndex, protocol::FeedbackRecord>& feedback() const { return feedback_; }
  const std::vector<protocol::TreeRecord>& trees() const { return trees_; }
  const std::vector<protocol::CalloutRecord>& callouts() const { return callouts_; }
  const std::optional<protocol::FailureRecord>& failure() const { return failure_; }
  const std::vector<protocol::Address>& retired() const { return retired_; }
  // Of sources whose number of slots has changed, the newest.
  const std::map<SourceIndex, protocol::OwnersRecord>& owners() const { return owners_; }

 private:
  struct Apply;
  void forget();

  std::optional<protocol::JournalStart> start_;
  StepIndex base_step_ = 0;
  std::deque<protocol::PlanRecord> plans_;
  std::map<SampleId, protocol::LateBadRecord> late_bad_;
  std::map<StepIndex, protocol::FeedbackRecord> feedback_;
  std::vector<protocol::TreeRecord> trees_;
  std::vector<protocol::CalloutRecord> callouts_;
  std::optional<protocol::FailureRecord> failure_;
  std::vector<protocol::Address> retired_;
  std::map<SourceIndex, protocol::OwnersRecord> owners_;
};

}  // namespace overlord::planner
