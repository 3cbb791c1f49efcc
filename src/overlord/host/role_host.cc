#include "overlord/host/role_host.h"

#include <algorithm>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/host/constructor_start.h"
#include "overlord/host/media_checks.h"
#include "overlord/plan/place/place_tree.h"
#include "overlord/plan/select/source_order.h"

namespace overlord::host {
namespace {

using protocol::Address;
using protocol::RoleKind;

plan::SourceOrder order_of(const OpenJob& job, SourceIndex s, uint32_t pass) {
  const loader::OpenSource& source = *job.sources[s];
  return plan::make_order(source.spec, source.manifest, source.seed, pass);
}

// The window a source's cursor stands in, numbered over all passes.
bool scales(const model::Scaling& scaling, const model::Source& source) {
  return scaling.policy != model::ScalingPolicy::kOff && source.slots() > source.loaders;
}

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
    : start_(std::move(start)),
      job_(start_.job),
      seams_(std::move(seams)),
      carrier_(seams_.transport != nullptr ? seams_.transport : this),
      views_(plan::make_views(job_->mesh, job_->delivery, 1, job_->spec.strategy)),
      budget_(std::make_shared<loader::PayloadBudget>(start_.options.payload_budget_bytes)),
      generations_(start_.generations) {
  versions_.job = job_->config.low;
  versions_.attempt = start_.attempt;
  versions_.mixture = job_->spec.mixture.version;
  versions_.format = model::kPlanFormat;
  OVERLORD_CHECK(!start_.ranks.empty(), "a host serves at least one rank");
  for (const Rank rank : start_.ranks) buckets_.push_back(views_->by_rank[rank].bucket);
  std::sort(buckets_.begin(), buckets_.end());
  buckets_.erase(std::unique(buckets_.begin(), buckets_.end()), buckets_.end());
  const StepIndex first_step = start_.state.state.next_step;
  for (const uint32_t bucket : buckets_) {
    if (!hosted_here(start_.hosted.constructors, bucket)) continue;
    make_constructor({job_->mesh, views_, 1}, bucket, first_step);
  }
  for (const Rank rank : start_.ranks) {
    if (hosted_here(start_.hosted.clients, rank)) make_client(rank, first_step);
  }
  for (SourceIndex s = 0; s < job_->sources.size(); ++s) {
    for (uint32_t slot = 0; slot < job_->spec.sources[s].slots(); ++slot) {
      const Address address = protocol::loader_address(s, slot);
      const auto& standby = start_.hosted.standby;
      const bool stands_by = std::find(standby.begin(), standby.end(), address) != standby.end();
      if (hosted_here(start_.hosted.loaders, address)) make_loader(address, stands_by);
    }
  }
  if (start_.hosted.planner) make_planner();
}

RoleHost::~RoleHost() { stop(); }

model::Versions RoleHost::versions_of(const Address& address) const {
  model::Versions versions = versions_;
  const auto found = generations_.find(address);
  if (found != generations_.end()) versions.generation = found->second;
  return versions;
}

// Of a rank that is as far ahead of what counts as it can be.
uint32_t RoleHost::reports_kept() const {
  return job_->spec.mixture.controller.delay + start_.options.plans_out() +
         start_.options.prefetch_steps + 1;
}

std::function<void(runtime::Task)> RoleHost::Hosted::poster() const {
  return [loop = loop.get()](runtime::Task task) { loop->post(std::move(task)); };
}

void RoleHost::Hosted::stop() {
  loop->stop();
  if (auto* loader = as<loader::Loader>()) loader->stop();  // its loop is quiet: safe here
}

RoleHost::Hosted& RoleHost::make_home(const Address& address) {
  std::unique_ptr<Hosted>& home = roles_[address];
  home = std::make_unique<Hosted>();
  home->loop = std::make_unique<Loop>(*seams_.executor, [](runtime::Task&& task) { task(); });
  return *home;
}

template <typename Role, typename Work>
void RoleHost::post_to(const Address& address, Work work) {
  const runtime::ReadLock lock(mutex_);
  const auto found = roles_.find(address);
  if (found == roles_.end()) return;
  Role* role = found->second->template as<Role>();
  found->second->loop->post([role, work = std::move(work)]() mutable { work(*role); });
}

template <typename Role>
Role& RoleHost::hosted_role(const Address& address) const {
  const runtime::ReadLock lock(mutex_);
  const auto found = roles_.find(address);
  OVERLORD_CHECK(found != roles_.end(), "the role lives in another host");
  return *found->second->template as<Role>();
}

void RoleHost::make_planner() {
  Hosted& home = make_home(protocol::planner_address());
  planner::PlannerStart planner_start;
  planner::PlannerJob& job = planner_start.job;
  job.spec = job_->spec;
  job.mesh = job_->mesh;
  job.delivery = job_->delivery;
  for (const auto& source : job_->sources) job.source_rows.push_back(source->manifest.rows);
  job.views = views_;
  for (const model::Source& source : job.spec.sources) {
    job.slots.push_back(source.loaders);
    job.most_slots.push_back(source.slots());
  }
  job.windows = std::make_shared<plan::SourceWindows>(
      [open = job_](SourceIndex s, uint32_t pass) { return order_of(*open, s, pass); });
  job.versions = versions_;
  job.generation = versions_of(protocol::planner_address()).generation;
  job.buckets = buckets_;
  job.runway = start_.options.plans_out();
  job.reporters = start_.options.reporters;
  std::sort(job.reporters.begin(), job.reporters.end());
  job.ranks = start_.ranks;
  job.scaling = start_.options.scaling;
  planner_start.feedback = start_.state.feedback;
  planner_start.state = start_.state.state;
  planner_start.folded = start_.folded;
  planner_start.run = start_.run;
  if (start_.folded) {
    Result<model::StreamState> state = protocol::decode_stream_state(start_.folded->start().state);
    OVERLORD_CHECK(state.ok(), "what was folded can be read");
    planner_start.state = std::move(*state);
    planner_start.feedback.clear();
  }
  for (SourceIndex s = 0; s < job_->sources.size(); ++s) {
    planner_start.first_windows.push_back(
        window_sequence(*job_, s, planner_start.state.cursors[s]));
  }
  planner_start.peers = protocol::PeerGenerations(generations_);
  planner_start.config = job_->config;
  planner_start.manifest = job_->manifest.digest;
  planner::PlannerSeams seams;
  seams.transport = carrier_;
  seams.journal = seams_.journal;
  seams.clock = seams_.clock;
  seams.on_loop = home.poster();
  seams.fed_back = start_.fed_back;
  seams.callouts = seams_.callouts;
  seams.tree_changed = start_.tree_changed;
  seams.retired = start_.retired;
  seams.superseded = start_.superseded;
  if (!seams.tree_changed) {  // all roles are here
    seams.tree_changed = [this](const planner::TreeChanged& change,
                                const std::function<void()>& ready) {
      take_tree(change);
      ready();
    };
    seams.retired = [this](const Address& constructor) { retire(constructor); };
  }
  home.role = std::make_unique<planner::Planner>(std::move(planner_start), std::move(seams));
}

void RoleHost::make_loader(const Address& address, bool standby) {
  const SourceIndex s = address.index;
  const std::shared_ptr<const loader::OpenSource>& source = job_->sources[s];
  const model::Source& spec = job_->spec.sources[s];
  const bool ready_tokens = model::is_bare_tokens(spec.format) && !model::delivers_media(spec);
  if (!standby) active_[address] = versions_of(address).generation;
  Hosted& home = make_home(address);
  loader::LoaderStart start;
  start.job = {s,
               address.slot,
               spec.loaders,
               spec.workers,
               order_of(*job_, s, 0).windows(),
               spec.at_end != model::EndPolicy::kRepeat,
               start_.options.plans_out(),
               versions_of(address),
               spec.shadow == model::ShadowKind::kWarm,
               scales(start_.options.scaling, spec)};
  start.standby = standby;
  start.source = source;
  start.budget = budget_;
  start.first_window = window_sequence(*job_, s, start_.state.state.cursors[s]);
  std::map<Address, uint32_t> peers = generations_;
  uint32_t& term = peers[protocol::planner_address()];
  term = std::max(term, newest_term_.load());
  start.peers = protocol::PeerGenerations(std::move(peers));
  const uint32_t total_buckets = plan::consumer_count(job_->spec.strategy, job_->mesh);
  start.sparse_reads = ready_tokens && (spec.shuffle == model::Shuffle::kFull ||
                                        buckets_.size() * 2 < total_buckets);
  start.media_fields = media_numbers(*job_, *source);
  start.encoded_field = encoded_field(*job_, *source);
  start.pack_media = packs_media(*source);
  const bool needs_encoder = !spec.text_column.empty();
  // Megatron's files hold the tokens as they are handed on; what others read is decoded first.
  const bool from_scratch = !ready_tokens && seams_.scratch_storage != nullptr;
  home.role = std::make_unique<loader::Loader>(
      std::move(start),
      loader::LoaderSeams{carrier_, from_scratch ? seams_.scratch_storage : seams_.storage,
                          seams_.executor, needs_encoder ? seams_.encoder(spec) : nullptr,
                          seams_.clock, seams_.pool, home.poster(), start_.quarantined,
                          [this] { shed_all(); }, seams_.scratch,
                          media_functions(*source, seams_.media_function), seams_.spare_executor});
}

void RoleHost::make_constructor(const planner::Tree& tree, uint32_t bucket, StepIndex first_step) {
  const Address address = protocol::constructor_address(bucket, tree.version);
  constructor::ConstructorStart start =
      constructor_start(*job_, tree, bucket, start_.ranks, first_step);
  start.hash_batches = start_.options.hash_batches;
  start.shared = start_.share_batches;
  start.job.versions = versions_of(address);
  start.job.budget_bytes = start_.options.constructor_budget_bytes;
  start.peers = protocol::PeerGenerations(generations_);
  Hosted& home = make_home(address);
  home.role = std::make_unique<constructor::Constructor>(
      std::move(start),
      constructor::ConstructorSeams{carrier_, seams_.executor, seams_.clock, seams_.pool,
                                    home.poster(), nullptr, seams_.batch_transform});
}

void RoleHost::make_client(Rank rank, StepIndex first_step) {
  const Address address = protocol::client_address(rank);
  const client::ClientJob job{rank, views_->by_rank[rank].bucket, start_.options.prefetch_steps,
                              versions_of(address), reports_kept()};
  make_home(address).role = std::make_unique<client::Client>(
      job, first_step,
      client::ClientSeams{
          carrier_,
          [this, rank](client::ReadyStep ready) { start_.deliver(rank, std::move(ready)); },
          [this, rank](protocol::ReportAnswered answer) {
            if (start_.answered) start_.answered(rank, answer);
          },
          [this, rank](model::StepFeedback question) {
            if (start_.rule_asked) start_.rule_asked(rank, std::move(question));
          },
          [this, rank](protocol::CalloutAsked asked) {
            if (start_.callout_asked) start_.callout_asked(rank, std::move(asked));
          }},
      protocol::PeerGenerations(generations_));
}

void RoleHost::start() {
  for (const Address& address : hosted()) {
    if (address.kind == RoleKind::kPlanner) {
      post_to<planner::Planner>(address, [](planner::Planner& planner) { planner.start(); });
    } else if (address.kind == RoleKind::kClient) {
      post_to<client::Client>(address, [](client::Client& client) { client.start(); });
    }
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
  const runtime::ReadLock lock(mutex_);
  for (const auto& [address, hosted] : roles_) {
    auto* loader = hosted->as<loader::Loader>();
    if (loader != nullptr) hosted->loop->post([loader] { loader->shed(); });
  }
}

void RoleHost::stop() {
  std::vector<Hosted*> all;
  {
    const runtime::WriteLock lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    for (const auto& [address, hosted] : roles_) all.push_back(hosted.get());
  }
  for (Hosted* hosted : all) hosted->stop();  // unlocked: what it is at may want to send
}

void RoleHost::consumed(Rank rank, StepIndex step, uint32_t tree) {
  post_to<client::Client>(protocol::client_address(rank),
                          [step, tree](client::Client& client) { client.consumed(step, tree); });
}

void RoleHost::report(Rank rank, model::StepFeedback part) {
  tell_planner(rank, protocol::Report{std::move(part)});
}

void RoleHost::tell_planner(Rank rank, protocol::Message message) {
  post_to<client::Client>(
      protocol::client_address(rank),
      [message = std::move(message)](client::Client& client) { client.tell_planner(message); });
}

void RoleHost::rebuild_tree(planner::TreeWish wish, planner::Planner::TreeAnswer done) {
  post_to<planner::Planner>(
      protocol::planner_address(),
      [this, wish = std::move(wish), done = std::move(done)](planner::Planner& planner) mutable {
        if (start_.ranks.size() == job_->mesh.world_size()) {
          return planner.rebuild_tree(std::move(wish), std::move(done));
        }
        done(invalid_argument(
            "mesh: it is changed while the job runs by the one planner that serves all ranks; this "
            "one serves " +
            std::to_string(start_.ranks.size()) + " of " + std::to_string(job_->mesh.world_size()) +
            ": restart from a state, which resumes on any mesh"));
      });
}

void RoleHost::take_tree(const planner::TreeChanged& change,
                         const std::optional<std::vector<uint32_t>>& constructors,
                         uint32_t generation) {
  const planner::Tree& tree = change.tree;
  {
    const runtime::WriteLock lock(mutex_);
    for (const Rank rank : start_.ranks) {
      const uint32_t bucket = tree.views->by_rank[rank].bucket;
      if (bucket == model::kNoBucket) continue;
      const Address address = protocol::constructor_address(bucket, tree.version);
      if (roles_.contains(address) || !hosted_here(constructors, bucket)) continue;
      generations_[address] = generation;
      make_constructor(tree, bucket, change.first_step);
    }
  }
  for (const Rank rank : start_.ranks) {  // they ask at once, so those who answer come first
    const std::optional<Address> address = tree.seat_of(rank);
    post_to<client::Client>(
        protocol::client_address(rank), [this, change, rank, address](client::Client& client) {
          if (!change.again && address) return client.reseat(change.first_step, *address);
          const client::Restarted restarted{change.tree.version, change.first_step, address};
          if (client.restart(restarted) && change.restart) start_.restarted(rank, change);
        });
  }
}

void RoleHost::add(const Address& role, uint32_t generation, std::optional<StepIndex> first_step) {
  OVERLORD_CHECK(role.kind != RoleKind::kPlanner, "a planner comes with its host");
  const StepIndex first = first_step.value_or(start_.state.state.next_step);
  {
    const runtime::WriteLock lock(mutex_);
    if (stopped_ || roles_.contains(role)) return;
    generations_[role] = generation;
    if (role.kind == RoleKind::kLoader) make_loader(role, false);
    if (role.kind == RoleKind::kConstructor) {
      OVERLORD_CHECK(protocol::tree_of(role) == 1, "of a later tree: take_tree() makes it");
      make_constructor({job_->mesh, views_, 1}, role.index, first);
    }
    if (role.kind == RoleKind::kClient) make_client(role.index, first);
  }
  if (role.kind == RoleKind::kClient) {
    post_to<client::Client>(role, [](client::Client& client) { client.start(); });
  }
  peer_restarted(role, generation);
}

void RoleHost::add_standby(const Address& role) {
  OVERLORD_CHECK(role.kind == RoleKind::kLoader, "only loaders have shadows");
  const runtime::WriteLock lock(mutex_);
  if (!stopped_ && !roles_.contains(role)) make_loader(role, true);
}

void RoleHost::promote(const Address& role, uint32_t generation) {
  {
    const runtime::WriteLock lock(mutex_);
    active_[role] = generation;
  }
  post_to<loader::Loader>(role,
                          [generation](loader::Loader& loader) { loader.promote(generation); });
  peer_restarted(role, generation);
}

size_t RoleHost::settle_loaders(const std::vector<protocol::RoleGeneration>& active,
                                const std::vector<Address>& standby) {
  std::map<Address, uint32_t> before;
  {
    const runtime::ReadLock lock(mutex_);
    before = active_;
  }
  size_t promoted = 0;
  const std::vector<Address> here = hosted();
  for (const auto& [role, generation] : active) {
    const auto known = before.find(role);
    if (std::find(here.begin(), here.end(), role) == here.end()) {
      add(role, generation);
    } else if (known == before.end() || known->second < generation) {
      promoted += known == before.end() ? 1 : 0;
      promote(role, generation);
    }
  }
  for (const Address& role : standby) {
    if (before.contains(role)) retire(role);
    add_standby(role);
  }
  return promoted;
}

void RoleHost::retire(const Address& role) {
  std::unique_ptr<Hosted> retired;
  {
    const runtime::WriteLock lock(mutex_);
    active_.erase(role);
    auto found = roles_.extract(role);
    if (!found) return;
    retired = std::move(found.mapped());
  }
  retired->stop();  // unlocked: what it is at may want to send
  const runtime::WriteLock lock(mutex_);
  retired_.push_back(std::move(retired));
}

void RoleHost::send(protocol::Envelope envelope) { deliver(std::move(envelope)); }

void RoleHost::deliver(protocol::Envelope envelope) {
  if (envelope.from == protocol::planner_address()) heed_term(envelope.versions);
  auto shared = std::make_shared<protocol::Envelope>(std::move(envelope));
  const runtime::ReadLock lock(mutex_);
  const auto found = roles_.find(shared->to);
  if (found == roles_.end()) return;  // one that lives elsewhere, or has retired
  found->second->loop->post([hosted = found->second.get(), shared] {
    std::visit([&shared](auto& role) { role->receive(*shared); }, hosted->role);
  });
}

void RoleHost::heed_term(const model::Versions& planner) {
  if (planner.attempt != versions_.attempt) return;
  uint32_t known = newest_term_.load();
  while (known < planner.generation &&
         !newest_term_.compare_exchange_weak(known, planner.generation)) {
  }
}

void RoleHost::peer_restarted(const Address& role, uint32_t generation) {
  model::Versions versions = versions_;
  versions.generation = generation;
  {
    const runtime::WriteLock lock(mutex_);
    uint32_t& known = generations_[role];  // for roles that are made later
    known = std::max(known, generation);
  }
  for (const Address& address : hosted()) {
    if (address == role) continue;
    deliver({versions, role, address, protocol::PeerRestarted{role, generation}});
  }
}

std::vector<Address> RoleHost::hosted() const {
  const runtime::ReadLock lock(mutex_);
  std::vector<Address> addresses;
  for (const auto& [address, hosted] : roles_) addresses.push_back(address);
  return addresses;
}

const planner::PlannerProbe& RoleHost::planner_probe() const {
  return hosted_role<planner::Planner>(protocol::planner_address()).probe();
}

const planner::PlannerState& RoleHost::planner_state() const {
  return hosted_role<planner::Planner>(protocol::planner_address()).state();
}

std::vector<RoleHost::LoaderView> RoleHost::loaders() const {
  const runtime::ReadLock lock(mutex_);
  std::vector<LoaderView> views;
  for (const auto& [address, hosted] : roles_) {
    const auto* loader = hosted->as<loader::Loader>();
    if (loader == nullptr) continue;
    views.push_back({address.index, address.slot, &loader->probe(), hosted->loop->depth()});
  }
  return views;
}

std::map<Address, const constructor::ConstructorProbe*> RoleHost::constructors() const {
  const runtime::ReadLock lock(mutex_);
  std::map<Address, const constructor::ConstructorProbe*> probes;
  for (const auto& [address, hosted] : roles_) {
    const auto* made = hosted->as<constructor::Constructor>();
    if (made != nullptr) probes[address] = &made->probe();
  }
  return probes;
}

std::vector<RoleHost::Unpacking> RoleHost::unpacking() const {
  std::vector<Unpacking> sums(job_->sources.size());
  const auto add = [&sums](const Hosted& hosted) {
    const auto* role = hosted.as<constructor::Constructor>();
    if (role == nullptr) return;
    const constructor::ConstructorProbe& probe = role->probe();
    for (size_t s = 0; s < probe.unpacking.size() && s < sums.size(); ++s) {
      const constructor::UnpackProbe& one = probe.unpacking[s];
      add_counts(read_counts(one), &sums[s].counts);
      sums[s].held_bytes += one.held->now;
      sums[s].peak_bytes += one.held->peak;
    }
  };
  const runtime::ReadLock lock(mutex_);
  for (const auto& [address, hosted] : roles_) add(*hosted);
  for (const std::unique_ptr<Hosted>& hosted : retired_) add(*hosted);
  return sums;
}

client::ClientProbe& RoleHost::client_probe(Rank rank) {
  return hosted_role<client::Client>(protocol::client_address(rank)).probe();
}

size_t RoleHost::queue_depth() const {
  const runtime::ReadLock lock(mutex_);
  size_t depth = 0;
  for (const auto& [address, hosted] : roles_) depth += hosted->loop->depth();
  return depth;
}

}  // namespace overlord::host
