#include "overlord/host/consumer.h"

#include "overlord/base/check.h"

namespace overlord::host {

Consumer::Consumer(protocol::ResumeState base)
    : base_(std::move(base)), pass_over_(base_.microbatch), ended_(base_.state.ended) {
  base_.microbatch = 0;
  base_.feedback.clear();  // of the steps before the start; a FeedbackLedger knows what is needed
}

void Consumer::feed(client::ReadyStep ready) {
  OVERLORD_CHECK(!current_ && !ended_, "a step is fed when the one before is finished");
  if (ready.failure) {
    failure_ = std::move(ready.failure);
    ended_ = true;
    return;
  }
  OVERLORD_CHECK(ready.step == next_step(), "steps are fed in order");
  if (pass_over_ > ready.microbatches.size()) {
    failure_ = Status(Code::kStateMismatch,
                      "resume state: " + std::to_string(pass_over_) + " microbatches of step " +
                          std::to_string(ready.step) + " were returned, this rank has " +
                          std::to_string(ready.microbatches.size()) +
                          "; inside a step a state is of the rank that saved it");
    ended_ = true;
    return;
  }
  current_ = std::move(ready);
  tree_ = current_->plan->versions.tree;
  next_ = pass_over_;
  pass_over_ = 0;
  if (next_ >= current_->microbatches.size()) finish_step();
}

model::MicrobatchPtr Consumer::take() {
  if (!current_) return nullptr;
  model::MicrobatchPtr batch = current_->microbatches[next_++];
  rank_hash_ = chain(rank_hash_, batch->digest);
  if (next_ == current_->microbatches.size()) finish_step();
  return batch;
}

void Consumer::finish_step() {
  const model::Plan& plan = *current_->plan;
  after_ = plan.state_after;
  base_.content_chain = chain(base_.content_chain, plan.content_hash);
  base_.plan_chain = chain(base_.plan_chain, plan.plan_hash);
  consumed_ = plan.step;
  ended_ = plan.last;
  current_.reset();
}

void Consumer::restart(const protocol::ResumeState& from) {
  after_ = std::make_shared<const model::StreamState>(from.state);
  base_.content_chain = from.content_chain;
  base_.plan_chain = from.plan_chain;
  current_.reset();
  next_ = pass_over_ = 0;
  consumed_.reset();
  failure_.reset();
  ended_ = from.state.ended;
}

std::optional<StepIndex> Consumer::take_consumed() {
  const std::optional<StepIndex> step = consumed_;
  consumed_.reset();
  return step;
}

Place Consumer::place() const {
  return {after_, next_step(),         current_ ? next_ : pass_over_,
          tree_,  base_.content_chain, base_.plan_chain};
}

protocol::ResumeState state_of(protocol::ResumeState base, const Place& place) {
  if (place.after) base.state = *place.after;
  base.microbatch = place.microbatch;
  base.content_chain = place.content_chain;
  base.plan_chain = place.plan_chain;
  return base;
}

Digest stream_hash(const Digest& plan_chain, const std::vector<Digest>& rank_hashes) {
  Digest hash = plan_chain;
  for (const Digest& rank : rank_hashes) hash = chain(hash, rank);
  return hash;
}

}  // namespace overlord::host
