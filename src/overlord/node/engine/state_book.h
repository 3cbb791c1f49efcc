// StateBook: makes the resume states of places where ranks of this process have stood. It knows
// where the stream was started and what was reported since, and no engine, so that a state can be
// had of a batch that outlives its loader. Thread-safe; shared by seats and by who keeps places.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/host/consumer.h"
#include "overlord/host/feedback_ledger.h"

namespace overlord::node {

class StateBook {
 public:
  // `kept_feedback`: steps that a rank may lie behind the newest report; places are kept longer.
  StateBook(const protocol::ResumeState& start, uint64_t kept_feedback);

  void fed_back(const model::StepFeedback& feedback);
  // Encoded. With a metric-driven mixture it waits until every reporter has reported the steps
  // before: kDeadline names the first that is missing. kOutOfRange: the place is too long ago.
  Result<std::string> encode(const host::Place& place, int64_t timeout_ms);
  // Of the steps that are finished there.
  const model::StreamTotals& totals(const host::Place& place) const {
    return place.after != nullptr ? place.after->totals : start_.state.totals;
  }

  static constexpr uint64_t kPlacesKept = 64;  // steps behind that states can be made of

 private:
  protocol::ResumeState start_;
  std::mutex mutex_;
  std::condition_variable grown_;
  host::FeedbackLedger ledger_ OVERLORD_GUARDED_BY(mutex_);
};

// A place with what makes its state.
class KeptPlace {
 public:
  KeptPlace(std::shared_ptr<StateBook> book, host::Place place)
      : book_(std::move(book)), place_(std::move(place)) {}
  const host::Place& place() const { return place_; }
  const model::StreamTotals& totals() const { return book_->totals(place_); }
  Result<std::string> state(int64_t timeout_ms) const { return book_->encode(place_, timeout_ms); }

 private:
  std::shared_ptr<StateBook> book_;
  host::Place place_;
};

}  // namespace overlord::node
