// Consumer: the trainer's side of one rank. Gives out the microbatches of handed-over steps one by
// one and always knows the resume state and the hashes of what it has given out (law 7: consumed
// means returned). Single-threaded, never waits; whoever owns it does the waiting.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "overlord/base/hash.h"
#include "overlord/model/microbatch.h"
#include "overlord/protocol/state_codec.h"
#include "overlord/roles/client/state.h"

namespace overlord::host {

// Where a rank stands between two microbatches: what its resume state has beyond where the stream
// was started. A few pointers and numbers, so that it can be taken after every microbatch.
struct Place {
  std::shared_ptr<const model::StreamState> after;  // of the last finished step; null: none here
  StepIndex next_step = 0;
  uint32_t microbatch = 0;  // microbatches of it already returned
  uint32_t tree = 1;        // of the step of the newest microbatch
  Digest content_chain;
  Digest plan_chain;
};

// The state of a place; `base` is where the stream was started.
protocol::ResumeState state_of(protocol::ResumeState base, const Place& place);

class Consumer {
 public:
  // `base`: where the stream starts; its `microbatch` ones of the first step are passed over.
  explicit Consumer(protocol::ResumeState base);

  // Feed the next step, in order. Only when take() has nothing left.
  void feed(client::ReadyStep ready);
  // The next microbatch, or null when a step must be fed first (or the stream has ended).
  model::MicrobatchPtr take();

  // What was given out from there on is void: the stream goes on from there, once more.
  void restart(const protocol::ResumeState& from);

  bool ended() const { return ended_; }
  const std::optional<Status>& failure() const { return failure_; }
  // A step whose microbatches have all been returned, told once.
  std::optional<StepIndex> take_consumed();

  Place place() const;
  protocol::ResumeState state() const { return state_of(base_, place()); }
  // Of the tree that the step of the newest microbatch was planned for.
  uint32_t tree() const { return tree_; }
  const Digest& rank_hash() const { return rank_hash_; }
  const Digest& content_chain() const { return base_.content_chain; }
  const Digest& plan_chain() const { return base_.plan_chain; }

 private:
  void finish_step();
  StepIndex next_step() const { return after_ ? after_->next_step : base_.state.next_step; }

  protocol::ResumeState base_;  // where it started; hashes after the last finished step
  std::shared_ptr<const model::StreamState> after_;  // of the last finished step; copied when asked
  std::optional<client::ReadyStep> current_;
  uint32_t next_ = 0;       // next microbatch of current_
  uint32_t pass_over_ = 0;  // microbatches returned before this consumer was made
  std::optional<StepIndex> consumed_;
  std::optional<Status> failure_;
  bool ended_ = false;
  uint32_t tree_ = 1;
  Digest rank_hash_;
};

// Hash of a whole run: the plans, then every rank's bytes in rank order.
Digest stream_hash(const Digest& plan_chain, const std::vector<Digest>& rank_hashes);

}  // namespace overlord::host
