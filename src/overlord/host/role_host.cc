#include "overlord/host/role_host.h"

#include <algorithm>

#include "overlord/base/check.h"
#include "overlord/host/constructor_start.h"
#include "overlord/host/media_checks.h"
#include "overlord/plan/place_tree.h"
#include "overlord/plan/source_order.h"

namespace overlord::host {
namespace {

using protocol::Address;
using protocol::RoleKind;

plan::SourceOrder order_of(const OpenJob& job, SourceIndex s, uint32_t pass) {
  const loader::OpenSource& source = *job.sources[s];
  return plan::make_order(source.spec, source.manifest, source.seed, pass);
}

// The window a source's cursor stands in, numbered over all passes.
uint64_t window_sequence(const OpenJob& job, SourceIndex s, const model::SourceCursor& cursor) {
  const plan::SourceOrder order = order_of(job, s, cursor.pass);
  if (cursor.position >= order.rows()) return (uint64_t{cursor.pass} + 1) * order.windows();
  return uint64_t{cursor.pass} * order.windows() + order.window_of(cursor.position);
}

template <typename Value>
bool hosted_here(const std::optional<std::vector<Value>>& some, const Value& value) {
  return !some || std::find(some->begin(), some->end(), value) != some->end();
}

}  // namespace

RoleHost::RoleHost(HostStart start, HostSeams seams)
    : job_(start.job),
      seams_(std::move(seams)),
      carrier_(seams_.transport != nullptr ? seams_.transport : this),
      generations_(std::move(start.generations)),
      views_(plan::make_views(job_->mesh, job_->delivery, 1, job_->spec.strategy)),
      ranks_(start.ranks),
      options_(start.options),
      share_batches_(start.share_batches),
      budget_(std::make_shared<loader::PayloadBudget>(start.options.payload_budget_bytes)) {
  versions_.job = job_->config.low;
  versions_.attempt = start.attempt;
  versions_.mixture = job_->spec.mixture.version;
  versions_.format = model::kPlanFormat;
  OVERLORD_CHECK(!start.ranks.empty(), "a host serves at least one rank");
  for (const Rank rank : start.ranks) buckets_.push_back(views_->by_rank[rank].bucket);
  std::sort(buckets_.begin(), buckets_.end());
  buckets_.erase(std::unique(buckets_.begin(), buckets_.end()), buckets_.end());
  const planner::Tree own{job_->mesh, views_, 1};
  for (const uint32_t bucket : buckets_) {
    if (!hosted_here(start.hosted.constructors, bucket)) continue;
    make_constructor(own, bucket, start.state.state.next_step);
  }
  make_clients(start);
  make_loaders(start);
  if (start.hosted.planner) make_planner(start);
}

RoleHost::~RoleHost() { stop(); }

model::Versions RoleHost::versions_of(const Address& address) const {
  model::Versions versions = versions_;
  const auto found = generations_.find(address);
  if (found != generations_.end()) versions.generation = found->second;
  return versions;
}

std::function<void(runtime::Task)> RoleHost::on_loop(const Address& address) {
  return poster(loops_.at(address).get());
}

std::function<void(runtime::Task)> RoleHost::poster(Loop* loop) {
  return [loop](runtime::Task task) { loop->post(std::move(task)); };
}

void RoleHost::add_loop(const Address& address) { loops_[address] = make_loop(); }

std::unique_ptr<RoleHost::Loop> RoleHost::make_loop() {
  return std::make_unique<Loop>(*seams_.executor, [](runtime::Task&& task) { task(); });
}

void RoleHost::make_planner(HostStart& start) {
  add_loop(protocol::planner_address());
  planner::PlannerStart planner_start;
  planner::PlannerJob& job = planner_start.job;
  job.spec = job_->spec;
  job.mesh = job_->mesh;
  job.delivery = job_->delivery;
  for (const auto& source : job_->sources) job.source_rows.push_back(source->manifest.rows);
  job.views = views_;
  job.owners = owner_map(*job_);
  job.versions = versions_;
  job.generation = versions_of(protocol::planner_address()).generation;
  job.buckets = buckets_;
  // A client asks `prefetch` steps ahead of the one it holds; fewer plans than that would starve
  // it.
  job.runway = std::max(start.options.runway, start.options.prefetch_steps + 1);
  job.reporters = start.options.reporters;
  std::sort(job.reporters.begin(), job.reporters.end());
  planner_start.feedback = start.state.feedback;
  for (SourceIndex s = 0; s < job_->sources.size(); ++s) {
    planner_start.first_windows.push_back(window_sequence(*job_, s, start.state.state.cursors[s]));
  }
  planner_start.state = start.state.state;
  planner_start.peers = protocol::PeerGenerations(generations_);
  planner_start.config = job_->config;
  planner_start.manifest = job_->manifest.digest;
  planner::PlannerSeams seams;
  seams.transport = carrier_;
  seams.journal = seams_.journal;
  seams.clock = seams_.clock;
  seams.on_loop = on_loop(protocol::planner_address());
  seams.fed_back = start.fed_back;
  seams.callouts = seams_.callouts;
  seams.tree_changed = start.tree_changed;
  seams.retired = start.retired;
  if (!seams.tree_changed) {  // all roles are here
    seams.tree_changed = [this](const planner::TreeChanged& change,
                                const std::function<void()>& ready) {
      take_tree(change);
      ready();
    };
    seams.retired = [this](const Address& constructor) { retire(constructor); };
  }
  planner_ = std::make_unique<planner::Planner>(std::move(planner_start), std::move(seams));
}

void RoleHost::make_loaders(const HostStart& start) {
  const uint32_t total_buckets = plan::consumer_count(job_->spec.strategy, job_->mesh);
  for (SourceIndex s = 0; s < job_->sources.size(); ++s) {
    const std::shared_ptr<const loader::OpenSource>& source = job_->sources[s];
    const model::Source& spec = job_->spec.sources[s];
    const bool ready_tokens = spec.format == model::Format::kMegatron;
    for (uint32_t slot = 0; slot < spec.loaders; ++slot) {
      const Address address = protocol::loader_address(s, slot);
      if (!hosted_here(start.hosted.loaders, address)) continue;
      add_loop(address);
      loader::LoaderStart loader_start;
      loader_start.job = {s,
                          slot,
                          spec.loaders,
                          spec.workers,
                          order_of(*job_, s, 0).windows(),
                          spec.at_end != model::EndPolicy::kRepeat,
                          std::max(start.options.runway, start.options.prefetch_steps + 1),
                          versions_of(address)};
      loader_start.source = source;
      loader_start.budget = budget_;
      loader_start.first_window = window_sequence(*job_, s, start.state.state.cursors[s]);
      loader_start.peers = protocol::PeerGenerations(generations_);
      loader_start.sparse_reads = ready_tokens && (spec.shuffle == model::Shuffle::kFull ||
                                                   buckets_.size() * 2 < total_buckets);
      loader_start.media_fields = media_numbers(*job_, *source);
      loader_start.encoded_field = encoded_field(*job_, *source);
      loader_start.pack_media = packs_media(*job_, *source, start.several_hosts);
      const bool needs_encoder = !spec.text_column.empty();
      // Megatron's files hold the tokens as they are handed on; what others read is decoded first.
      const bool from_scratch = !ready_tokens && seams_.scratch_storage != nullptr;
      loaders_[address] = std::make_unique<loader::Loader>(
          std::move(loader_start),
          loader::LoaderSeams{carrier_, from_scratch ? seams_.scratch_storage : seams_.storage,
                              seams_.executor, needs_encoder ? seams_.encoder(spec) : nullptr,
                              seams_.clock, seams_.pool, on_loop(address), start.quarantined,
                              [this] { shed_all(); }, seams_.scratch,
                              media_functions(*source, seams_.media_function)});
    }
  }
}

void RoleHost::make_constructor(const planner::Tree& tree, uint32_t bucket, StepIndex first_step) {
  const Address address = protocol::constructor_address(bucket, tree.version);
  constructor::ConstructorStart start = constructor_start(*job_, tree, bucket, ranks_, first_step);
  start.hash_batches = options_.hash_batches;
  start.shared = share_batches_;
  start.job.versions = versions_of(address);
  start.job.budget_bytes = options_.constructor_budget_bytes;
  start.peers = protocol::PeerGenerations(generations_);
  HostedConstructor& made = constructors_[address];
  made.loop = make_loop();
  made.role = std::make_unique<constructor::Constructor>(
      std::move(start),
      constructor::ConstructorSeams{carrier_, seams_.executor, seams_.clock, seams_.pool,
                                    poster(made.loop.get()), nullptr, seams_.batch_transform});
}

void RoleHost::make_clients(const HostStart& start) {
  for (const Rank rank : start.ranks) {
    if (!hosted_here(start.hosted.clients, rank)) continue;
    const Address address = protocol::client_address(rank);
    add_loop(address);
    const client::ClientJob job{rank, views_->by_rank[rank].bucket, start.options.prefetch_steps,
                                versions_of(address)};
    clients_[rank] = std::make_unique<client::Client>(
        job, start.state.state.next_step,
        client::ClientSeams{carrier_,
                            [deliver = start.deliver, rank](client::ReadyStep ready) {
                              deliver(rank, std::move(ready));
                            },
                            [answered = start.answered, rank](protocol::ReportAnswered answer) {
                              if (answered) answered(rank, answer);
                            },
                            [asked = start.rule_asked, rank](model::StepFeedback question) {
                              if (asked) asked(rank, std::move(question));
                            }},
        protocol::PeerGenerations(generations_));
  }
}

void RoleHost::start() {
  if (planner_) on_loop(protocol::planner_address())([this] { planner_->start(); });
  for (auto& [rank, client] : clients_) {
    on_loop(protocol::client_address(rank))([&client = *client] { client.start(); });
  }
}

// Called by a loader that finds the payload budget full. Sources that were drawn from once and are
// idle now give back what they hold; at most every ten milliseconds, so that a budget that is
// simply too small does not turn into a storm.
void RoleHost::shed_all() {
  constexpr int64_t kPauseNs = 10'000'000;
  const int64_t now = seams_.clock->now_ns();
  int64_t last = last_shed_ns_.load();
  if (now - last < kPauseNs || !last_shed_ns_.compare_exchange_strong(last, now)) return;
  for (auto& [address, loader] : loaders_) {
    on_loop(address)([&loader = *loader] { loader.shed(); });
  }
}

void RoleHost::stop() {
  if (stopped_) return;
  stopped_ = true;
  std::vector<Loop*> loops;
  for (auto& [address, loop] : loops_) loops.push_back(loop.get());
  {
    const runtime::ReadLock lock(constructors_mutex_);
    for (auto& [address, hosted] : constructors_) loops.push_back(hosted.loop.get());
  }
  for (Loop* loop : loops) loop->stop();
  for (auto& [address, loader] : loaders_) loader->stop();  // its loop is quiet: safe here
}

void RoleHost::consumed(Rank rank, StepIndex step) {
  client::Client* client = clients_.at(rank).get();
  on_loop(protocol::client_address(rank))([client, step] { client->consumed(step); });
}

void RoleHost::report(Rank rank, model::StepFeedback part) {
  tell_planner(rank, protocol::Report{std::move(part)});
}

void RoleHost::tell_planner(Rank rank, protocol::Message message) {
  const Address address = protocol::client_address(rank);
  runtime::ReadLock lock(constructors_mutex_);
  const model::Versions versions = versions_of(address);
  lock.unlock();
  carrier_->send({versions, address, protocol::planner_address(), std::move(message)});
}

void RoleHost::rebuild_tree(planner::TreeWish wish, planner::Planner::TreeAnswer done) {
  on_loop(protocol::planner_address())(
      [this, wish = std::move(wish), done = std::move(done)]() mutable {
        if (ranks_.size() == job_->mesh.world_size()) {
          return planner_->rebuild_tree(std::move(wish), std::move(done));
        }
        done(invalid_argument(
            "mesh: it is changed while the job runs by the one planner that serves all ranks; this "
            "one serves " +
            std::to_string(ranks_.size()) + " of " + std::to_string(job_->mesh.world_size()) +
            ": restart from a state, which resumes on any mesh"));
      });
}

void RoleHost::take_tree(const planner::TreeChanged& change,
                         const std::optional<std::vector<uint32_t>>& constructors,
                         uint32_t generation) {
  const planner::Tree& tree = change.tree;
  {
    const runtime::WriteLock lock(constructors_mutex_);
    for (const Rank rank : ranks_) {
      const uint32_t bucket = tree.views->by_rank[rank].bucket;
      const Address address = protocol::constructor_address(bucket, tree.version);
      if (constructors_.contains(address) || !hosted_here(constructors, bucket)) continue;
      generations_[address] = generation;
      make_constructor(tree, bucket, change.first_step);
    }
  }
  for (const auto& [rank, client] : clients_) {  // they ask at once, so those who answer come first
    const uint32_t bucket = tree.views->by_rank[rank].bucket;
    const Address address = protocol::constructor_address(bucket, tree.version);
    on_loop(protocol::client_address(rank))([client = client.get(), first = change.first_step,
                                             address] { client->reseat(first, address); });
  }
}

void RoleHost::retire(const Address& constructor) {
  HostedConstructor retired;
  {
    const runtime::WriteLock lock(constructors_mutex_);
    auto found = constructors_.extract(constructor);
    if (!found) return;
    retired = std::move(found.mapped());
  }
  retired.loop->stop();  // unlocked: what it is at may want to send
  const runtime::WriteLock lock(constructors_mutex_);
  retired_.push_back(std::move(retired));
}

void RoleHost::send(protocol::Envelope envelope) { deliver(std::move(envelope)); }

void RoleHost::deliver(protocol::Envelope envelope) {
  const Address to = envelope.to;
  auto shared = std::make_shared<protocol::Envelope>(std::move(envelope));
  if (to.kind == RoleKind::kConstructor) {
    const runtime::ReadLock lock(constructors_mutex_);
    const auto found = constructors_.find(to);
    if (found == constructors_.end()) return;  // one that lives elsewhere, or has retired
    found->second.loop->post([role = found->second.role.get(), shared] { role->receive(*shared); });
    return;
  }
  const auto found = loops_.find(to);
  if (found == loops_.end()) return;  // a role that lives elsewhere
  found->second->post([this, to, shared] {
    if (to.kind == RoleKind::kPlanner) planner_->receive(*shared);
    if (to.kind == RoleKind::kLoader) loaders_.at(to)->receive(*shared);
    if (to.kind == RoleKind::kClient) clients_.at(to.index)->receive(*shared);
  });
}

void RoleHost::peer_restarted(const Address& role, uint32_t generation) {
  model::Versions versions = versions_;
  versions.generation = generation;
  {
    const runtime::WriteLock lock(constructors_mutex_);
    uint32_t& known = generations_[role];  // for constructors that are made later
    known = std::max(known, generation);
  }
  for (const Address& address : hosted()) {
    deliver({versions, role, address, protocol::PeerRestarted{role, generation}});
  }
}

std::vector<Address> RoleHost::hosted() const {
  std::vector<Address> addresses;
  for (const auto& [address, loop] : loops_) addresses.push_back(address);
  const runtime::ReadLock lock(constructors_mutex_);
  for (const auto& [address, hosted] : constructors_) addresses.push_back(address);
  return addresses;
}

const planner::PlannerProbe& RoleHost::planner_probe() const {
  OVERLORD_CHECK(planner_ != nullptr, "the planner lives in another host");
  return planner_->probe();
}

const planner::PlannerState& RoleHost::planner_state() const {
  OVERLORD_CHECK(planner_ != nullptr, "the planner lives in another host");
  return planner_->state();
}

std::vector<RoleHost::LoaderView> RoleHost::loaders() const {
  std::vector<LoaderView> views;
  for (const auto& [address, loader] : loaders_) {
    views.push_back({address.index, address.slot, &loader->probe(), loops_.at(address)->depth()});
  }
  return views;
}

std::map<Address, const constructor::ConstructorProbe*> RoleHost::constructors() const {
  const runtime::ReadLock lock(constructors_mutex_);
  std::map<Address, const constructor::ConstructorProbe*> probes;
  for (const auto& [address, hosted] : constructors_) probes[address] = &hosted.role->probe();
  return probes;
}

std::vector<RoleHost::Unpacking> RoleHost::unpacking() const {
  std::vector<Unpacking> sums(job_->sources.size());
  const auto add = [&sums](const constructor::ConstructorProbe& probe) {
    for (size_t s = 0; s < probe.unpacking.size() && s < sums.size(); ++s) {
      const constructor::UnpackProbe& one = probe.unpacking[s];
      sums[s].blobs += one.blobs;
      sums[s].unpack_ns += one.unpack_ns;
      sums[s].in_bytes += one.in_bytes;
      sums[s].out_bytes += one.out_bytes;
      sums[s].held_bytes += one.held->now;
      sums[s].peak_bytes += one.held->peak;
    }
  };
  const runtime::ReadLock lock(constructors_mutex_);
  for (const auto& [address, hosted] : constructors_) add(hosted.role->probe());
  for (const HostedConstructor& hosted : retired_) add(hosted.role->probe());
  return sums;
}

client::ClientProbe& RoleHost::client_probe(Rank rank) { return clients_.at(rank)->probe(); }

size_t RoleHost::queue_depth() const {
  size_t depth = 0;
  for (const auto& [address, loop] : loops_) depth += loop->depth();
  const runtime::ReadLock lock(constructors_mutex_);
  for (const auto& [address, hosted] : constructors_) depth += hosted.loop->depth();
  return depth;
}

}  // namespace overlord::host
