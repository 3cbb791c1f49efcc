#include "overlord/sim/cluster.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/columnar/index/source_index.h"

namespace overlord::sim {
namespace {

constexpr uint64_t kEventLimit = 20'000'000;

Result<std::shared_ptr<const loader::OpenSource>> open_source(const model::Source& source,
                                                              uint64_t seed,
                                                              runtime::MemoryStorage& objects,
                                                              bool lengths) {
  columnar::IndexOptions options;
  options.lengths = lengths && source.text_column.empty();
  options.threads = 1;
  options.block_rows = 16;
  options.probe = loader::media_probe(source);
  OVERLORD_TRY(std::string bytes, columnar::build_index_bytes(objects, nullptr, source, options,
                                                              nullptr, runtime::CancelToken()));
  OVERLORD_TRY(auto index, columnar::SourceIndex::from_bytes(std::move(bytes), source));
  auto open = std::make_shared<loader::OpenSource>();
  open->spec = source;
  open->manifest = index->manifest();
  open->bad_rows = index->bad_rows();
  OVERLORD_TRY(open->reader, index->reader());
  OVERLORD_TRY(open->media, loader::OpenMedia::open(source, *index));
  open->seed = seed;
  return std::shared_ptr<const loader::OpenSource>(std::move(open));
}

}  // namespace

Result<std::shared_ptr<const host::OpenJob>> open_in_memory(model::JobSpec spec,
                                                            model::DeliverySpec delivery,
                                                            model::Mesh mesh,
                                                            runtime::MemoryStorage& objects,
                                                            bool lengths) {
  std::vector<std::shared_ptr<const loader::OpenSource>> sources;
  for (const model::Source& source : spec.sources) {
    OVERLORD_TRY(auto open, open_source(source, spec.seed, objects, lengths));
    sources.push_back(std::move(open));
  }
  return host::open_job(std::move(spec), std::move(delivery), std::move(mesh), std::move(sources));
}

SimCluster::SimCluster(std::shared_ptr<const host::OpenJob> job, runtime::MemoryStorage& objects,
                       std::vector<Rank> ranks, model::RuntimeOptions options,
                       protocol::ResumeState state, uint64_t seed, const Layout& layout,
                       planner::Callouts* callouts, const MakeBatchTransform& make_batch_transform)
    : ranks_(std::move(ranks)),
      world_(seed),
      storage_(world_, objects, layout.storage),
      transport_(world_),
      encoder_(world_),
      function_(world_),
      batch_transform_(make_batch_transform ? make_batch_transform(world_) : nullptr),
      callouts_(callouts),
      ledger_(state.feedback) {
  for (const Rank rank : ranks_) seats_.emplace(rank, Seat(state));
  host::HostStart start;
  start.job = std::move(job);
  start.ranks = ranks_;
  start.options = options;
  start.attempt = layout.attempt;
  start.state = std::move(state);
  start.deliver = [this](Rank rank, client::ReadyStep ready) {
    seats_.at(rank).waiting.push_back(std::move(ready));
  };
  start.restarted = [this](Rank rank, const planner::TreeChanged& change) {
    restarted(rank, change);
  };
  start.quarantined = [this](loader::QuarantineNote note) {
    world_.landed(Fault::kBadRow);
    quarantine_.push_back(std::move(note));
  };
  start.answered = [this](Rank rank, protocol::ReportAnswered answer) {
    answers_.emplace_back(rank, answer);
  };
  start.fed_back = [this](const model::StepFeedback& feedback) { ledger_.add(feedback); };
  start.rule_asked = [this](Rank rank, const model::StepFeedback& question) {
    ask_rule(rank, question);
  };
  start.callout_asked = [this](Rank rank, const protocol::CalloutAsked& asked) {
    ask_function(rank, asked);
  };
  host::HostSeams seams;
  seams.executor = &world_;
  seams.storage = &storage_;
  seams.clock = &world_;
  seams.pool = runtime::BufferPool::make(64 << 20);
  seams.encoder = [this](const model::Source&) { return &encoder_; };
  seams.media_function = [this](const model::Source&, size_t) { return &function_; };
  seams.transport = &transport_;
  if (!layout.split) seams.callouts = callouts;
  seams.batch_transform = batch_transform_.get();
  processes_ = std::make_unique<Processes>(world_, transport_, disk_, std::move(start),
                                           std::move(seams), layout);
  processes_->slowest = [this] {
    StepIndex slowest = std::numeric_limits<StepIndex>::max();
    for (const auto& [rank, seat] : seats_) {
      slowest = std::min(slowest, seat.consumer.place().next_step);
    }
    return slowest;
  };
  processes_->rank_died = [this](Rank rank) { return rank_died(rank); };
}

// It comes back where it was: behind the last microbatch that it got.
protocol::ResumeState SimCluster::rank_died(Rank rank) {
  Seat& seat = seats_.at(rank);
  const protocol::ResumeState state = seat.consumer.state();
  seat.waiting.clear();
  seat.consumer = host::Consumer(state);
  ++seat.deaths;
  return state;
}

void SimCluster::rebuild(const planner::TreeWish& wish, const planner::Planner::TreeAnswer& done) {
  auto answered = std::make_shared<bool>(false);
  processes_->with_planner([wish, done, answered](host::RoleHost& host) {
    if (*answered) return;
    host.rebuild_tree(wish, [done, answered](const Result<StepIndex>& answer) {
      if (!std::exchange(*answered, true)) done(answer);
    });
  });
}

bool SimCluster::satisfied(const Seat& seat) const {
  return seat.gone || seat.consumer.ended() || (seat.steps_left == 0 && seat.batches_left == 0);
}

void SimCluster::restarted(Rank rank, const planner::TreeChanged& change) {
  Seat& seat = seats_.at(rank);
  seat.waiting.clear();
  seat.gone = !change.tree.seat_of(rank);
  const StepIndex now = seat.consumer.place().next_step;
  seat.steps_left += now - std::min(now, std::max(seat.run_from, change.first_step));
  seat.consumer.restart(*change.restart);
  std::erase_if(seat.delivered.batches, [&](const model::MicrobatchPtr& batch) {
    return batch->core->step >= change.first_step;
  });
}

void SimCluster::consumed(Rank rank, StepIndex step, uint32_t tree) {
  host_of(rank).consumed(rank, step, tree);
  if (const auto wish = resizes ? resizes(rank, step) : std::nullopt) {
    host_of(rank).tell_planner(rank, *wish);
  }
  if (!reports) return;
  if (std::optional<model::StepFeedback> part = reports(rank, step)) report(rank, *part);
}

void SimCluster::ask_rule(Rank rank, const model::StepFeedback& question) {
  const Result<std::vector<int64_t>> weights = rule(question);
  if (weights.ok()) {
    host_of(rank).tell_planner(rank, protocol::Report{{question.step, {}, *weights}});
  } else {
    host_of(rank).tell_planner(rank, protocol::StreamFailed{question.step, weights.status()});
  }
}

// A process that has died says nothing more, and a desk answers once.
void SimCluster::ask_function(Rank rank, const protocol::CalloutAsked& asked) {
  const uint64_t deaths = seats_.at(rank).deaths;
  callouts_->ask(*asked.request, [this, rank, deaths, said = std::make_shared<bool>(false),
                                  number = asked.question](Result<std::vector<int64_t>> answer) {
    const Seat& seat = seats_.at(rank);
    if (std::exchange(*said, true)) return;
    if (seat.deaths != deaths || !processes_->lives(rank)) return;
    host_of(rank).tell_planner(rank, answer.ok()
                                         ? protocol::CalloutTold{number, std::move(*answer)}
                                         : protocol::CalloutTold{number, {}, answer.status()});
  });
}

std::optional<protocol::ResumeState> SimCluster::state(Rank rank) {
  protocol::ResumeState state = seats_.at(rank).consumer.state();
  const bool complete =
      world_.run_until([&] { return !ledger_.attach(&state).has_value(); }, kEventLimit);
  if (!complete) return std::nullopt;
  return state;
}

// Take what is there and what is still wanted.
void SimCluster::drain(Rank rank) {
  Seat& seat = seats_.at(rank);
  while (!satisfied(seat) && processes_->lives(rank)) {
    if (model::MicrobatchPtr batch = seat.consumer.take()) {
      seat.hash = chain(seat.hash, batch->digest);
      world_.be_patient(world_.now_ns());
      if (const auto step = seat.consumer.take_consumed())
        consumed(rank, *step, seat.consumer.tree());
      if (seat.batches_left > 0) --seat.batches_left;
      if (seat.steps_left > 0 && batch->core->index + 1 == batch->core->count) --seat.steps_left;
      if (keep_batches) seat.delivered.batches.push_back(std::move(batch));
    } else if (!seat.waiting.empty()) {
      client::ReadyStep ready = std::move(seat.waiting.front());
      seat.waiting.erase(seat.waiting.begin());
      seat.consumer.feed(std::move(ready));
      if (const auto step = seat.consumer.take_consumed())
        consumed(rank, *step, seat.consumer.tree());
    } else {
      return;
    }
  }
}

bool SimCluster::run(uint64_t steps) {
  for (auto& [rank, seat] : seats_) {
    seat.steps_left = steps;
    seat.run_from = seat.consumer.place().next_step;
  }
  return world_.run_until(
      [this] {
        bool all = true;
        for (const Rank rank : ranks_) {
          drain(rank);
          all = all && satisfied(seats_.at(rank));
        }
        return all;
      },
      kEventLimit);
}

void SimCluster::take_if_there(Rank rank, uint64_t microbatches) {
  seats_.at(rank).batches_left = microbatches;
  constexpr uint64_t kEvents = 400;
  world_.run_until(
      [this, rank] {
        drain(rank);
        return satisfied(seats_.at(rank));
      },
      kEvents);
  seats_.at(rank).batches_left = 0;
}

bool SimCluster::take(Rank rank, uint64_t microbatches) {
  seats_.at(rank).batches_left = microbatches;
  return world_.run_until(
      [this, rank] {
        drain(rank);
        return satisfied(seats_.at(rank));
      },
      kEventLimit);
}

Digest SimCluster::stream_hash() {
  std::vector<Digest> hashes;
  for (const Rank rank : ranks_) hashes.push_back(seats_.at(rank).hash);
  return host::stream_hash(seats_.at(ranks_.front()).consumer.plan_chain(), hashes);
}

std::optional<Status> SimCluster::failure() const {
  for (const auto& [rank, seat] : seats_) {
    if (seat.consumer.failure()) return seat.consumer.failure();
  }
  return std::nullopt;
}

}  // namespace overlord::sim
