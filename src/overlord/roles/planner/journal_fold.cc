#include "overlord/roles/planner/journal_fold.h"

#include <algorithm>
#include <utility>

#include "overlord/protocol/state_codec.h"

namespace overlord::planner {

struct JournalFold::Apply {
  JournalFold& self;

  // Whatever was before it is told by it and by what follows, or counts no more.
  Status operator()(const protocol::JournalStart& record) const {
    OVERLORD_TRY(const model::StreamState state, protocol::decode_stream_state(record.state));
    self = JournalFold();
    self.start_ = record;
    self.base_step_ = state.next_step;
    return {};
  }
  Status operator()(const protocol::PlanRecord& record) const {
    if (record.step != self.next_step()) {
      return bad_data("journal: plan of step " + std::to_string(record.step) + ", where step " +
                      std::to_string(self.next_step()) + " follows");
    }
    self.plans_.push_back(record);
    self.forget();
    return {};
  }
  Status operator()(const protocol::LateBadRecord& record) const {
    self.late_bad_.emplace(record.id, record);
    return {};
  }
  Status operator()(const protocol::FeedbackRecord& record) const {
    self.feedback_[record.feedback.step] = record;
    self.forget();
    return {};
  }
  // Plans from its first step on were heard of by nobody, and are made anew with it.
  Status operator()(const protocol::TreeRecord& record) const {
    while (!self.plans_.empty() && self.plans_.back().step >= record.first_step) {
      self.plans_.pop_back();
    }
    std::erase_if(self.callouts_, [&](const auto& one) { return one.step >= record.first_step; });
    self.trees_.push_back(record);
    return {};
  }
  Status operator()(const protocol::CalloutRecord& record) const {
    self.callouts_.push_back(record);
    return {};
  }
  Status operator()(const protocol::FailureRecord& record) const {
    if (!self.failure_ || record.step < self.failure_->step) self.failure_ = record;
    return {};
  }
  Status operator()(const protocol::RetiredRecord& record) const {
    self.retired_.push_back(record.constructor);
    return {};
  }
  Status operator()(const protocol::OwnersRecord& record) const {
    if (record.owners.ranges.empty()) {
      return bad_data("journal: source " + std::to_string(record.owners.source) + " has no owners");
    }
    self.owners_[record.owners.source] = record;
    return {};
  }
};

Status JournalFold::apply(const protocol::JournalRecord& record) {
  if (!started() && !std::holds_alternative<protocol::JournalStart>(record)) {
    return bad_data("journal: its first record is no start");
  }
  return std::visit(Apply{*this}, record);
}

void JournalFold::open_term(const model::Versions& versions) {
  OVERLORD_CHECK(started() && versions.generation > start_->versions.generation,
                 "a term follows those before it");
  start_->versions = versions;
}

void JournalFold::forget() {
  while (!plans_.empty() && plans_.front().step < plans_.back().done) {
    protocol::PlanRecord& first = plans_.front();
    start_->state = std::move(first.state_after);
    start_->content_chain = chain(start_->content_chain, first.content_hash);
    start_->plan_chain = chain(start_->plan_chain, first.plan_hash);
    plans_.pop_front();
    ++base_step_;
  }
  OVERLORD_CHECK(plans_.empty() || plans_.front().step == base_step_,
                 "the first plan that is kept follows the state before it");
  std::erase_if(callouts_, [this](const auto& one) { return one.step < base_step_; });
  // The newest stays in any case: it says which step a user's rule decides next.
  while (feedback_.size() > 1 && feedback_.begin()->second.effective < base_step_) {
    feedback_.erase(feedback_.begin());
  }
}

std::vector<protocol::JournalRecord> JournalFold::records() const {
  std::vector<protocol::JournalRecord> out = {start()};
  for (const auto& [id, record] : late_bad_) out.emplace_back(record);
  for (const protocol::TreeRecord& record : trees_) out.emplace_back(record);
  for (const auto& [step, record] : feedback_) out.emplace_back(record);
  for (const protocol::CalloutRecord& record : callouts_) out.emplace_back(record);
  for (const protocol::Address& constructor : retired_) {
    out.emplace_back(protocol::RetiredRecord{start_->versions, constructor});
  }
  for (const auto& [source, record] : owners_) out.emplace_back(record);
  for (const protocol::PlanRecord& record : plans_) out.emplace_back(record);
  if (failure_) out.emplace_back(*failure_);
  return out;
}

}  // namespace overlord::planner
