#include "overlord/node/engine/embedded_engine.h"

#include <algorithm>
#include <chrono>
#include <future>

#include "overlord/base/enum_names.h"
#include "overlord/node/engine/late_rows.h"
#include "overlord/node/keeper/welcome.h"
#include "overlord/node/run_journal.h"
#include "overlord/node/status/profile.h"
#include "overlord/plan/place/client_place_tree.h"
#include "overlord/transport/shared/shared_pool.h"

namespace overlord::node {
namespace {

constexpr std::chrono::seconds kAnswerTime{60};  // of a planner that is asked for another mesh

// How much recycled memory waits for the next batch: two steps' worth of whatever is in use.
uint64_t idle_limit(const model::RuntimeOptions& options) {
  return options.constructor_budget_bytes + options.payload_budget_bytes;
}

// Pinning takes long and is done once a segment, so such memory comes from a few of them.
Result<std::shared_ptr<transport::SharedPool>> pinned_pool(
    const model::RuntimeOptions& options, size_t ranks,
    std::shared_ptr<transport::HostPinning> pinning) {
  transport::SharedPoolOptions sizes;
  sizes.name = "pinned";
  sizes.limit_bytes = options.payload_budget_bytes + options.constructor_budget_bytes * (ranks + 1);
  sizes.pinning = std::move(pinning);
  return transport::SharedPool::make(std::move(sizes));
}

}  // namespace

EmbeddedEngine::EmbeddedEngine(std::shared_ptr<const host::OpenJob> job, std::vector<Rank> ranks,
                               EngineOptions options)
    : job_(std::move(job)), ranks_(std::move(ranks)), options_(std::move(options)) {}

Result<std::unique_ptr<EmbeddedEngine>> EmbeddedEngine::start(
    std::shared_ptr<const host::OpenJob> job, std::vector<Rank> ranks, EngineOptions options,
    protocol::ResumeState state) {
  std::sort(ranks.begin(), ranks.end());
  if (ranks.empty()) return invalid_argument("ranks: at least one is needed");
  if (std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end()) {
    return invalid_argument("ranks: one is named twice");
  }
  if (ranks.back() >= job->mesh.world_size()) {
    return invalid_argument("rank: " + std::to_string(ranks.back()) + " is outside the mesh " +
                            job->mesh.text() + " of " + std::to_string(job->mesh.world_size()) +
                            " ranks");
  }
  std::unique_ptr<EmbeddedEngine> engine(
      new EmbeddedEngine(std::move(job), std::move(ranks), std::move(options)));
  OVERLORD_RETURN_IF_ERROR(engine->check_feedback());
  OVERLORD_RETURN_IF_ERROR(engine->check_count(state.microbatch));
  OVERLORD_RETURN_IF_ERROR(engine->check_callouts());
  OVERLORD_RETURN_IF_ERROR(engine->build(std::move(state)));
  engine->runtime_->start_roles();
  return engine;
}

// Law 9: reports are an input, so one planner must hear them all.
Status EmbeddedEngine::check_feedback() const {
  if (!job_->spec.mixture.metric_driven()) return {};
  const uint32_t world = job_->mesh.world_size();
  if (!host::all_readers(*job_, ranks_)) {
    return invalid_argument(
        "a metric-driven mixture needs one planner that hears every report: "
        "this process hosts " +
        std::to_string(ranks_.size()) + " of " + std::to_string(world) +
        " ranks, and each process of an embedded engine plans for itself; "
        "host all ranks here, or use weights that do not follow losses");
  }
  for (const Rank rank : options_.runtime.reporters) {
    if (rank >= world) {
      return invalid_argument("feedback.reporters: rank " + std::to_string(rank) +
                              " is outside the mesh " + job_->mesh.text());
    }
  }
  if (options_.runtime.reporters.empty()) {
    return invalid_argument("feedback.reporters: at least one rank must report");
  }
  return {};
}

// Where consumers have different numbers of microbatches, a count is that of one of them.
Status EmbeddedEngine::check_count(uint32_t microbatch) const {
  const model::Strategy& strategy = job_->spec.strategy;
  if (microbatch == 0 || strategy.atoms != model::Atoms::kSlices) return {};
  const plan::ClientPlaceTree tree(job_->mesh);
  for (const Rank rank : ranks_) {
    if (tree.consumer_of(rank, strategy.axis) == tree.consumer_of(ranks_.front(), strategy.axis)) {
      continue;
    }
    return Status(Code::kStateMismatch,
                  "resume state: it counts " + std::to_string(microbatch) +
                      " microbatches inside a step, and ranks " + std::to_string(ranks_.front()) +
                      " and " + std::to_string(rank) +
                      " have numbers of their own; resume each from its own state, or all from "
                      "one saved at a step boundary");
  }
  return {};
}

// Law 9: what a function answers is an input, so one planner must ask it.
Status EmbeddedEngine::check_callouts() const {
  const model::Strategy& strategy = job_->spec.strategy;
  if (!strategy.has_callout()) return {};
  if (host::all_readers(*job_, ranks_)) return {};
  const std::string name = strategy.cost_by.declared()      ? strategy.cost_by.name
                           : strategy.balance_by.declared() ? strategy.balance_by.name
                                                            : strategy.plan_by.name;
  return invalid_argument(
      "strategy: the Python function " + name +
      " needs one planner that asks it for all ranks: this process hosts " +
      std::to_string(ranks_.size()) + " of " + std::to_string(job_->mesh.world_size()) +
      " ranks, and each process of an embedded engine plans for itself; use "
      "engine=\"processes\", whose one planner asks where rank 0 is, or host all ranks here");
}

Status EmbeddedEngine::build(protocol::ResumeState state) {
  seat_ranks(state);
  host::HostStart start;
  start.job = job_;
  start.ranks = ranks_;
  start.options = options_.runtime;
  start.options.one_planner = host::all_readers(*job_, ranks_);
  start.state = std::move(state);
  start.deliver = [this](Rank rank, client::ReadyStep ready) {
    seats_->deliver(rank, std::move(ready));
  };
  start.restarted = [this](Rank rank, const planner::TreeChanged& change) {
    seats_->restart(rank, change.tree.version, *change.restart);
  };
  start.quarantined = [this](loader::QuarantineNote note) { note_row(std::move(note)); };
  start.answered = [this](Rank rank, protocol::ReportAnswered answer) {
    seats_->answer(rank, answer);
  };
  start.tree_changed = [this](const planner::TreeChanged& change,
                              const std::function<void()>& ready) {
    host().take_tree(change);
    note_tree(change.tree.version, {change.tree.mesh.axes(), change.tree.ranks});
    ready();
  };
  start.retired = [this](const protocol::Address& constructor) { host().retire(constructor); };
  start.fed_back = [this](const model::StepFeedback& feedback) { seats_->fed_back(feedback); };
  start.rule_asked = [this](Rank rank, model::StepFeedback question) {
    seats_->rule_asked(rank, std::move(question));
  };
  RoleRuntimeOptions with{
      options_.worker_command,  own_journal(),      nullptr, idle_limit(options_.runtime),
      seats_->callouts().get(), options_.transforms};
  if (options_.pinning) {
    OVERLORD_TRY(with.pool, pinned_pool(options_.runtime, ranks_.size(), options_.pinning));
  }
  OVERLORD_TRY(runtime_, RoleRuntime::make(std::move(start), nullptr, std::move(with)));
  return {};
}

// Nobody comes after this planner to read it: it is for people.
std::string EmbeddedEngine::own_journal() const {
  if (options_.journal_path.empty()) return {};
  return journal_folder_of(options_.journal_path, job_->config,
                           "rank-" + std::to_string(ranks_.front()));
}

void EmbeddedEngine::seat_ranks(const protocol::ResumeState& state) {
  const model::RuntimeOptions& runtime = options_.runtime;
  RankSeats::Wiring wiring;
  wiring.consumed = [this](Rank rank, StepIndex step, uint32_t tree) {
    host().consumed(rank, step, tree);
  };
  wiring.tell_planner = [this](Rank rank, protocol::Message message) {
    host().tell_planner(rank, std::move(message));
  };
  wiring.probe = [this](Rank rank) -> client::ClientProbe& { return host().client_probe(rank); };
  wiring.may_wait = [this] { return held_too_much(); };
  wiring.at_end = [this](const model::StreamState& after) { return late_rows_over_budget(after); };
  wiring.planner_waits_for_disk = [this] { return status().planner.journal.waits_for_space; };
  wiring.explain_wait = [this](Rank rank, StepIndex step) {
    return Status(Code::kDeadline, explain_wait(rank, step));
  };
  wiring.metric_driven = job_->spec.mixture.metric_driven();
  const uint64_t kept =
      uint64_t{job_->spec.mixture.controller.delay} + runtime.runway + runtime.prefetch_steps + 8;
  seats_ = std::make_unique<RankSeats>(ranks_, state, kept, clock_, std::move(wiring));
}

Status EmbeddedEngine::held_too_much() const {
  const uint64_t held = runtime_->held_bytes();
  const uint64_t limit = options_.runtime.constructor_budget_bytes * ranks_.size() +
                         options_.runtime.payload_budget_bytes +
                         options_.runtime.private_copy_limit_bytes;
  if (held <= limit) return {};
  return {Code::kResource, "batches are held beyond the limit: " + std::to_string(held) +
                               " bytes held, " + std::to_string(limit) +
                               " allowed; drop batches you no longer need or raise "
                               "runtime.private_copy_limit"};
}

// Rows found bad after the last step was planned have no step left to stop before: the end itself
// says so. Loaders note a row before they hand over the hole, so nothing is missed here.
Status EmbeddedEngine::late_rows_over_budget(const model::StreamState& state) {
  return node::late_rows_over_budget(quarantine(), bad_row_limits(job_->spec), state);
}

Result<StepIndex> EmbeddedEngine::rebuild(const planner::TreeWish& wish) {
  if (!process_.here()) {
    return Status(Code::kCancelled, "this loader was started in another process");
  }
  auto answer = std::make_shared<std::promise<Result<StepIndex>>>();
  std::future<Result<StepIndex>> answered = answer->get_future();
  host().rebuild_tree(wish, [answer](const Result<StepIndex>& first) { answer->set_value(first); });
  if (answered.wait_for(kAnswerTime) == std::future_status::ready) return answered.get();
  return Status(Code::kDeadline, "mesh: the planner does not answer");
}

void EmbeddedEngine::close() {
  if (!process_.here()) return;
  const std::lock_guard lock(close_mutex_);
  if (closed_) return;
  closed_ = true;
  if (seats_) seats_->close(Status(Code::kCancelled, "the engine was closed"));
  if (options_.transforms) options_.transforms->close();
  if (!runtime_) return;
  const int64_t elapsed_ns = runtime_->elapsed_ns();
  runtime_->status();  // looks at processes that stop() ends
  runtime_->stop();
  write_profiles(elapsed_ns);
}

std::string EmbeddedEngine::explain_wait(Rank rank, StepIndex step) {
  std::string text = "rank " + std::to_string(rank) + " waits for step " + std::to_string(step);
  const std::string waits = what_is_waited_for({}, job_->spec, &host().planner_probe());
  if (!waits.empty()) text += "; " + waits;
  if (const auto asked = runtime_->asked_function()) text += "; " + function_wait_text(*asked);
  for (const host::RoleHost::LoaderView& loader : host().loaders()) {
    if (loader.probe->in_work == 0) continue;
    const model::SourceManifest& manifest = job_->manifest.sources[loader.source];
    const uint32_t block = loader.probe->current_block;
    text += "; source " + manifest.name + " is at shard " +
            manifest.shards[manifest.blocks[block].shard].uri + ", stage " +
            enum_name(loader.probe->stage.load());
  }
  return text;
}

EngineStatus EmbeddedEngine::status() {
  EngineStatus out = runtime_->status();
  for (const Rank rank : ranks_) {
    const client::ClientProbe& probe = host().client_probe(rank);
    out.clients.push_back({rank, read_counts(probe), seats_->steps_waiting(rank)});
  }
  return out;
}

void EmbeddedEngine::write_profiles(int64_t elapsed_ns) {
  if (options_.profile_paths.size() != job_->spec.sources.size()) return;
  SourceProfiles profiles;
  add_costs(runtime_->status(), &profiles);
  const ProfiledRun run{"embedded", job_->config.hex(), elapsed_ns};
  for (size_t s = 0; s < options_.profile_paths.size(); ++s) {
    const std::string& name = job_->spec.sources[s].name;
    write_profile(options_.profile_paths[s], name, profiles[name], run);
  }
}

}  // namespace overlord::node
