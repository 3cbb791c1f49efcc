// PlanCursor: the stream's plans without an engine. Reads metadata only (payload only where lengths
// are not in the index), on the caller's thread; what `plan`, `inspect` and `simulate` stand on.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/host/feedback_ledger.h"
#include "overlord/host/open_job.h"
#include "overlord/node/functions/encoders.h"
#include "overlord/plan/mix/meta_buffer.h"
#include "overlord/plan/place/dgraph.h"
#include "overlord/plan/place/place_tree.h"
#include "overlord/plan/place/placement.h"
#include "overlord/plan/select/source_order.h"
#include "overlord/plan/select/step_selector.h"
#include "overlord/runtime/seams.h"

namespace overlord::node {

// Calls a function that the strategy names and waits for it, on the caller's thread.
using CallFunction = std::function<Result<std::vector<int64_t>>(const model::CalloutRequest&)>;

class PlanCursor {
 public:
  PlanCursor(std::shared_ptr<const host::OpenJob> job, protocol::ResumeState start,
             runtime::Storage& storage, Encoders& encoders, CallFunction call = {});

  // The next step's plan, or null when the stream has ended. kUnavailable where a metric-driven
  // mixture needs feedback that was not reported.
  Result<model::PlanPtr> next();
  // What all reporters said of a step that was planned.
  Status report(const model::StepFeedback& feedback);
  protocol::ResumeState state() const;
  // Of the plan that next() gave last: why its samples are where they are.
  const std::shared_ptr<const plan::DGraph>& graph() const { return graph_; }
  // Of the same plan, by source: the mixture's weights, 0 where it gives no more. Also of a step
  // that the rest of one document fills, of which nothing is asked.
  const std::vector<int64_t>& weights() const { return weights_; }

 private:
  Status post(const plan::MetaNeed& need);
  void set_weights(const model::Plan& plan);
  Result<model::CalloutAnswers> call_functions(const plan::PlanInputs& inputs,
                                               const plan::StepContent& content);

  std::shared_ptr<const host::OpenJob> job_;
  protocol::ResumeState base_;
  runtime::Storage& storage_;
  Encoders& encoders_;
  model::StreamState state_;
  std::vector<uint64_t> source_rows_;
  std::vector<plan::MetaBuffer> meta_;
  std::shared_ptr<const model::ViewTable> views_;
  plan::StepSelector selector_;
  plan::Placer placer_;
  std::shared_ptr<const plan::DGraph> graph_;
  std::vector<int64_t> weights_;
  host::FeedbackLedger ledger_;
  CallFunction call_;
};

}  // namespace overlord::node
