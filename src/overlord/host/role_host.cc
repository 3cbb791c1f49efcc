#include "overlord/host/role_host.h"

#include <algorithm>

#include "overlord/base/check.h"
#include "overlord/host/media_checks.h"
#include "overlord/plan/place_tree.h"
#include "overlord/plan/source_order.h"

namespace overlord::host {
namespace {

using protocol::Address;
using protocol::RoleKind;

constexpr uint64_t kLongestRow = (uint64_t{1} << 31) - 1;

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

model::OwnerMap owner_map(const OpenJob& job) {
  model::OwnerMap owners;
  for (const model::Source& source : job.spec.sources) owners.slots.push_back(source.loaders);
  return owners;
}

template <typename Value>
bool hosted_here(const std::optional<std::vector<Value>>& some, const Value& value) {
  return !some || std::find(some->begin(), some->end(), value) != some->end();
}

columnar::AssembleSpec assemble_spec(const OpenJob& job, uint32_t slices) {
  columnar::AssembleSpec spec;
  spec.context = job.spec.context;
  spec.rows = job.delivery.microbatch_size;
  spec.align = job.spec.align;
  spec.pad_token = job.spec.pad_token;
  spec.token_type = job.delivery.token_type;
  spec.weight_type = job.delivery.weight_type;
  spec.slicing = job.delivery.slicing;
  spec.slices = slices;
  for (const model::Source& source : job.spec.sources) {
    spec.specials.push_back({source.bos, source.eod});
  }
  return spec;
}

}  // namespace

RoleHost::RoleHost(HostStart start, HostSeams seams)
    : job_(start.job),
      seams_(std::move(seams)),
      carrier_(seams_.transport != nullptr ? seams_.transport : this),
      generations_(std::move(start.generations)),
      views_(plan::make_views(job_->mesh, job_->delivery, 1, job_->spec.strategy)),
      budget_(std::make_shared<loader::PayloadBudget>(start.options.payload_budget_bytes)) {
  versions_.job = job_->config.low;
  versions_.attempt = start.attempt;
  versions_.mixture = job_->spec.mixture.version;
  versions_.format = model::kPlanFormat;
  OVERLORD_CHECK(!start.ranks.empty(), "a host serves at least one rank");
  for (const Rank rank : start.ranks) buckets_.push_back(views_->by_rank[rank].bucket);
  std::sort(buckets_.begin(), buckets_.end());
  buckets_.erase(std::unique(buckets_.begin(), buckets_.end()), buckets_.end());
  make_constructors(start);
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
  Loop* loop = loops_.at(address).get();
  return [loop](runtime::Task task) { loop->post(std::move(task)); };
}

void RoleHost::add_loop(const Address& address) {
  loops_[address] = std::make_unique<Loop>(*seams_.executor, [](runtime::Task&& task) { task(); });
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
  planner_ = std::make_unique<planner::Planner>(
      std::move(planner_start),
      planner::PlannerSeams{carrier_, seams_.journal, seams_.clock,
                            on_loop(protocol::planner_address()), start.fed_back, seams_.callouts});
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
                              [this] { shed_all(); }, seams_.scratch});
    }
  }
}

void RoleHost::make_constructors(const HostStart& start) {
  const std::shared_ptr<const constructor::MediaChains> chains = media_chains(*job_);
  for (const uint32_t bucket : buckets_) {
    if (!hosted_here(start.hosted.constructors, bucket)) continue;
    const Address address = protocol::constructor_address(bucket);
    add_loop(address);
    constructor::ConstructorStart ctor;
    uint32_t slices = 1;
    for (const Rank rank : start.ranks) {
      const model::ClientView& view = views_->by_rank[rank];
      if (view.bucket != bucket) continue;
      ctor.ranks.push_back(rank);
      ctor.views.push_back(view);
      slices = std::max(slices, view.slices);
    }
    ctor.assemble = assemble_spec(*job_, slices);
    if (job_->spec.strategy.atoms == model::Atoms::kSamples) {
      ctor.assemble.rows = 1;  // the longest there may be; every plan says how long they are
      ctor.assemble.context = plan::microbatch_limit(job_->spec, job_->delivery);
    }
    ctor.first_step = start.state.state.next_step;
    ctor.hash_batches = start.options.hash_batches;
    ctor.shared = start.share_batches;
    ctor.media = job_->media;
    ctor.chains = chains;
    for (const model::MediaLayout& layout : job_->media) {
      ctor.job.media_row_bytes.push_back(layout.row_bytes());
    }
    ctor.job.encodes = encodes_media(*job_);
    ctor.job.bucket = bucket;
    ctor.job.sources = static_cast<uint32_t>(job_->sources.size());
    ctor.job.owners = owner_map(*job_);
    ctor.job.versions = versions_of(address);
    ctor.peers = protocol::PeerGenerations(generations_);
    ctor.job.wants_payload = std::any_of(
        ctor.views.begin(), ctor.views.end(),
        [](const model::ClientView& view) { return (view.fields & model::kPayloadFields) != 0; });
    ctor.job.wants_payload = ctor.job.wants_payload || ctor.job.encodes;
    const uint32_t consumers = plan::consumer_count(job_->spec.strategy, job_->mesh);
    uint32_t microbatches = (job_->spec.bins / consumers + 1) / job_->delivery.microbatch_size + 1;
    if (job_->spec.strategy.atoms == model::Atoms::kSlices) {
      // Even work is not even tokens: who has the short sequences has more of them.
      const uint64_t tokens = 2 * job_->spec.step_tokens() / consumers + job_->spec.align;
      ctor.assemble.rows = 1;
      ctor.assemble.context = static_cast<uint32_t>(std::min<uint64_t>(tokens, kLongestRow));
      microbatches = 1;
    }
    ctor.job.step_bytes = constructor::microbatch_bytes(ctor) * microbatches;
    ctor.job.budget_bytes = start.options.constructor_budget_bytes;
    constructors_[bucket] = std::make_unique<constructor::Constructor>(
        std::move(ctor), constructor::ConstructorSeams{carrier_, seams_.executor, seams_.clock,
                                                       seams_.pool, on_loop(address)});
  }
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
  for (auto& [address, loop] : loops_) loop->stop();
  for (auto& [address, loader] : loaders_) loader->stop();  // its loop is quiet: safe here
}

void RoleHost::consumed(Rank rank, StepIndex step) {
  client::Client* client = clients_.at(rank).get();
  loops_.at(protocol::client_address(rank))->post([client, step] { client->consumed(step); });
}

void RoleHost::report(Rank rank, model::StepFeedback part) {
  const Address address = protocol::client_address(rank);
  carrier_->send({versions_of(address), address, protocol::planner_address(),
                  protocol::Report{std::move(part)}});
}

void RoleHost::rebuild_tree(const model::Mesh& mesh, std::function<void(const Status&)> done) {
  on_loop(protocol::planner_address())([this, mesh, done = std::move(done)] {
    const auto views = plan::make_views(mesh, job_->delivery, 1, job_->spec.strategy);
    for (const auto& [rank, client] : clients_) {
      if (rank < views->by_rank.size() && views->by_rank[rank] == views_->by_rank[rank]) continue;
      done(invalid_argument("mesh: rank " + std::to_string(rank) + " would see something else on " +
                            mesh.text() + " than on " + job_->mesh.text() +
                            "; resume from a state to seat it anew"));
      return;
    }
    done(planner_->rebuild_tree(mesh));
  });
}

void RoleHost::send(protocol::Envelope envelope) { deliver(std::move(envelope)); }

void RoleHost::deliver(protocol::Envelope envelope) {
  const auto found = loops_.find(envelope.to);
  if (found == loops_.end()) return;  // a role that lives elsewhere
  const Address to = envelope.to;
  auto shared = std::make_shared<protocol::Envelope>(std::move(envelope));
  found->second->post([this, to, shared] {
    switch (to.kind) {
      case RoleKind::kPlanner:
        planner_->receive(*shared);
        break;
      case RoleKind::kLoader:
        loaders_.at(to)->receive(*shared);
        break;
      case RoleKind::kConstructor:
        constructors_.at(to.index)->receive(*shared);
        break;
      case RoleKind::kClient:
        clients_.at(to.index)->receive(*shared);
        break;
    }
  });
}

void RoleHost::peer_restarted(const Address& role, uint32_t generation) {
  model::Versions versions = versions_;
  versions.generation = generation;
  for (const auto& [address, loop] : loops_) {
    deliver({versions, role, address, protocol::PeerRestarted{role, generation}});
  }
}

std::vector<Address> RoleHost::hosted() const {
  std::vector<Address> addresses;
  for (const auto& [address, loop] : loops_) addresses.push_back(address);
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

std::map<uint32_t, const constructor::ConstructorProbe*> RoleHost::constructors() const {
  std::map<uint32_t, const constructor::ConstructorProbe*> probes;
  for (const auto& [bucket, role] : constructors_) probes[bucket] = &role->probe();
  return probes;
}

client::ClientProbe& RoleHost::client_probe(Rank rank) { return clients_.at(rank)->probe(); }

size_t RoleHost::queue_depth() const {
  size_t depth = 0;
  for (const auto& [address, loop] : loops_) depth += loop->depth();
  return depth;
}

}  // namespace overlord::host
