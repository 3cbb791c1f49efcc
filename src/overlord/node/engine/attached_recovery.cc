// What a rank does when the node of its host is gone or hangs: it waits for the next one, goes on
// with it, or stops where all ranks stop.
#include <algorithm>
#include <chrono>

#include "overlord/node/engine/attached_engine.h"
#include "overlord/node/recovery/node_pulse.h"

namespace overlord::node {
namespace {

constexpr int64_t kBeatNs = 1'000'000'000;
constexpr int64_t kLookNs = 20'000'000;
constexpr std::chrono::milliseconds kGate{20};    // from look to look at the other ranks
constexpr int64_t kLastStepsNs = 10'000'000'000;  // for a step that others have begun to come

}  // namespace

// The clients go on with what they have: rosters have told where roles live now.
void AttachedEngine::served_again(const protocol::Welcome& welcome) {
  if (welcome.run != run_) {
    return fail(Status(Code::kUnavailable,
                       "the node that has come back serves another run: restart from the last "
                       "checkpoint"));
  }
  losses_.served();
  node_missing_ = false;
  const std::lock_guard lock(mutex_);
  for (const auto& [question, asked] : asked_) carrier_->send_control("node", asked);
}

void AttachedEngine::on_lost(const std::string& peer) {
  if (peer != "node") return;  // a constructor: the node brings the next one, or says why not
  node_missing_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || !failure_.ok()) return;
  }
  const bool first = !losses_.missing();
  const Status status = losses_.lost(runtime::steady_now_ns());
  if (!status.ok()) return no_node(status);
  starter_->begin();
  endpoint_->call("node");
  if (!first) return;
  wait_for_node(losses_.since_ns());
  if (!welcomed_once_) look_for_its_end();
}

void AttachedEngine::no_node(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    no_node_ = failure_.ok();
  }
  if (!started_) return fail(status);
  stop_with_others(status);
}

// Whoever waits for the planner hears why; batches come up to where all ranks stop.
void AttachedEngine::stop_with_others(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
    reach_->stop();  // first: who sees a failure and no stop takes what is there
    failure_ = status;
    stopped_ns_ = runtime::steady_now_ns();
    changed_.notify_all();
  }
  seats_->stop_reports(status);
}

// A rank begins a step that not all ranks have only while there is a node: it would bring the
// others along. Nothing: not yet.
Result<bool> AttachedEngine::may_begin(Rank rank, StepIndex step, int64_t timeout_ms) {
  const int64_t until_ns = runtime::steady_now_ns() + timeout_ms * 1'000'000;
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  for (;;) {
    const std::optional<StepIndex> stop = reach_->stopped();
    if (closed_ || (!failure_.ok() && !stop)) return true;  // the seats say why
    if (stop && step >= *stop) return failure_.ok() ? stopped_by_others() : failure_;
    const int64_t now_ns = runtime::steady_now_ns();
    if (!failure_.ok() && seats_->steps_waiting(rank) == 0 &&
        now_ns - std::max(stopped_ns_, begun_ns_) > kLastStepsNs) {
      return failure_;  // others have begun it, and nobody is left to give it to this rank
    }
    if (!node_missing_ || stop || step < reach_->common()) return true;
    if (now_ns >= until_ns) return false;
    changed_.wait_for(lock, kGate);
  }
}

// Another rank has waited long enough.
Status AttachedEngine::stopped_by_others() const {
  return not_back_in_time(request_.recovery_ms * 1'000'000, starter_->last_failure());
}

// Told behind may_begin(), when the step is here. Not ok: all stop before it.
Status AttachedEngine::begin(Rank rank, StepIndex step) {
  reach_->set_begun(rank, step + 1);
  const std::lock_guard lock(mutex_);
  begun_ns_ = runtime::steady_now_ns();
  const std::optional<StepIndex> stop = reach_->stopped();
  if (!stop || step < *stop) return {};
  return failure_.ok() ? stopped_by_others() : failure_;
}

// One that ended in good order before it served us leaves nothing to start again: whoever attached
// may look for another.
void AttachedEngine::look_for_its_end() {
  endpoint_->post_after(kLookNs, [this] {
    if (!losses_.missing() || welcomed_once_ || !node_missing_) return;
    if (starter_->last_failure().code() == Code::kNotFound) return no_node(node_gone());
    look_for_its_end();
  });
}

// One that is there and does not serve says by itself what it waits for.
void AttachedEngine::wait_for_node(int64_t since_ns) {
  endpoint_->post_after(request_.recovery_ms * 1'000'000, [this, since_ns] {
    if (!losses_.missing() || losses_.since_ns() != since_ns) return;
    if (carrier_->connected("node")) return wait_for_node(since_ns);
    const Status late =
        not_back_in_time(request_.recovery_ms * 1'000'000, starter_->last_failure());
    started_ ? stop_with_others(late) : fail(late);
  });
}

void AttachedEngine::beat() {
  trace_.poll();
  if (node_is_silent()) {
    losses_.answered();
    kill_node(request_.directory);  // it hangs: the next one takes its place
  }
  endpoint_->post_after(kBeatNs, [this] { beat(); });
}

bool AttachedEngine::tell_status() {
  EngineStatus status;
  add_clients(&status);
  return carrier_->send_control("node", protocol::Beat{encode_engine_status(status)});
}

// One that serves answers beats. One that does not yet may be slow, but its process runs.
bool AttachedEngine::node_is_silent() {
  if (started_ && !losses_.missing()) return tell_status() && losses_.beat();
  const Result<SeenPulse> seen = see_pulse(request_.directory);
  return seen.ok() && losses_.looked(seen->beat);
}

// Others that were killed may come back, and are waited for as long as a node is.
Status AttachedEngine::explain_wait(Rank rank, StepIndex step) {
  const auto waits = [](const std::string& text) { return Status(Code::kDeadline, text); };
  std::string text = "rank " + std::to_string(rank) + " waits for step " + std::to_string(step);
  if (node_missing_) return waits(text + "; the node of this host has died and is started again");
  const Result<NodeStatus> status = node_status(200);
  if (!status.ok()) return waits(text + "; the node does not answer");
  if (!status->gone.empty() && waited_long(rank, step)) {
    return ranks_not_back(status->gone, request_.recovery_ms * 1'000'000);
  }
  return waits(status->waits.empty() ? text : text + "; " + status->waits);
}

bool AttachedEngine::waited_long(Rank rank, StepIndex step) {
  if (request_.recovery_ms == 0) return false;
  const int64_t now_ns = runtime::steady_now_ns();
  const std::lock_guard lock(mutex_);
  auto& [at, since_ns] = waits_[rank];
  if (since_ns == 0 || at != step) {
    at = step;
    since_ns = now_ns;
  }
  return now_ns - since_ns > request_.recovery_ms * 1'000'000;
}

}  // namespace overlord::node
