#include "overlord/node/role_runtime.h"

#include <algorithm>

#include "overlord/node/engine/open_files.h"
#include "overlord/node/run_journal.h"
#include "overlord/node/status/status_codec.h"
#include "overlord/storage/file_journal.h"

namespace overlord::node {
namespace {

// Of memory for reading and decoding that is kept warm.
constexpr uint64_t kLeastScratchIdle = 4 << 20, kMostScratchIdle = 64 << 20;

bool hosts_loader_of(const host::HostedRoles& hosted, SourceIndex source) {
  if (!hosted.loaders) return true;
  for (const protocol::Address& address : *hosted.loaders) {
    if (address.index == source) return true;
  }
  return false;
}

// Every thread decodes a block at a time: its bytes as read, and as decoded.
uint64_t scratch_idle_bytes(const host::OpenJob& job, const host::HostedRoles& hosted,
                            uint32_t threads) {
  uint64_t largest = 0;
  for (SourceIndex s = 0; s < job.manifest.sources.size(); ++s) {
    if (!hosts_loader_of(hosted, s)) continue;
    for (const model::BlockEntry& block : job.manifest.sources[s].blocks) {
      largest = std::max<uint64_t>(largest, block.size_bytes);
    }
  }
  return std::clamp(2 * threads * largest, kLeastScratchIdle, kMostScratchIdle);
}

bool has_warm_shadows(const model::JobSpec& spec) {
  return std::any_of(spec.sources.begin(), spec.sources.end(), [](const model::Source& source) {
    return source.shadows > 0 && source.shadow == model::ShadowKind::kWarm;
  });
}

// A slot's share of the time in its source's own code, which so far counts as tokenising.
void split_python(uint64_t python_ns, uint64_t all_slots_ns, LoaderStatus* loader) {
  if (all_slots_ns == 0) return;
  uint64_t& tokenise_ns = loader->counts.tokenise_ns;
  const double share = static_cast<double>(tokenise_ns) / static_cast<double>(all_slots_ns);
  const auto own = static_cast<uint64_t>(share * static_cast<double>(python_ns));
  loader->python_ns = std::min(own, tokenise_ns);
  tokenise_ns -= loader->python_ns;
}

}  // namespace

Result<std::unique_ptr<RoleRuntime>> RoleRuntime::make(
    host::HostStart start, runtime::Transport<protocol::Envelope>* transport,
    RoleRuntimeOptions options) {
  std::unique_ptr<RoleRuntime> made(new RoleRuntime());
  OVERLORD_RETURN_IF_ERROR(made->build(std::move(start), transport, std::move(options)));
  return made;
}

Status RoleRuntime::build(host::HostStart start, runtime::Transport<protocol::Envelope>* transport,
                          RoleRuntimeOptions options) {
  job_ = start.job;
  has_planner_ = start.hosted.planner;
  const model::RuntimeOptions& runtime = start.options;
  pool_ = options.pool ? options.pool->buffers() : runtime::BufferPool::make(options.idle_bytes);
  executor_ = std::make_unique<runtime::ThreadExecutor>(runtime.threads, "ol-cpu");
  OVERLORD_RETURN_IF_ERROR(executor_->status());
  const bool reads = !start.hosted.loaders || !start.hosted.loaders->empty();
  if (reads && has_warm_shadows(job_->spec)) {
    spare_executor_ =
        std::make_unique<runtime::ThreadExecutor>(1, "ol-spare", runtime::CpuTime::kSpare);
    OVERLORD_RETURN_IF_ERROR(spare_executor_->status());
  }
  OVERLORD_TRY(journal_,
               open_run_journal(has_planner_ ? options.journal : "", options.begun, &start));
  if (const auto term = start.generations.find(protocol::planner_address());
      term != start.generations.end()) {
    term_ = term->second;
  }
  folded_ = start.folded;
  OVERLORD_TRY(storage_,
               open_storage_of(job_->spec, {pool_, runtime.io_threads, runtime.open_files}));
  encoders_ =
      std::make_unique<Encoders>(*executor_, options.worker_command, runtime.tokenizer_processes);
  const TransformHosting hosting{options.transforms, runtime.one_planner};
  encoders_->set_transforms(hosting);
  media_functions_ = std::make_unique<MediaFunctions>(hosting);
  for (SourceIndex s = 0; s < job_->spec.sources.size(); ++s) {
    if (!hosts_loader_of(start.hosted, s)) continue;
    OVERLORD_TRY(const runtime::TextEncoder* encoder, encoders_->get(job_->spec.sources[s]));
    const std::lock_guard lock(workers_mutex_);
    workers_[s].costs = dynamic_cast<const runtime::EncoderCosts*>(encoder);
    OVERLORD_RETURN_IF_ERROR(media_functions_->open(job_->spec.sources[s]));
  }
  if (job_->spec.batch_transform.declared()) {
    OVERLORD_TRY(batch_transform_,
                 make_batch_transform(job_->spec, {options.transforms, runtime.one_planner}));
  }
  host::HostSeams seams;
  seams.executor = executor_.get();
  seams.spare_executor = spare_executor_.get();
  seams.storage = storage_.get();
  seams.clock = &clock_;
  seams.journal = journal_.get();
  seams.pool = pool_;
  if (options.pool && reads) {
    seams.scratch =
        runtime::BufferPool::make(scratch_idle_bytes(*job_, start.hosted, runtime.threads));
    OVERLORD_TRY(scratch_storage_, open_storage_of(job_->spec, {seams.scratch, runtime.io_threads,
                                                                runtime.open_files}));
    seams.scratch_storage = scratch_storage_.get();
  }
  seams.encoder = [this](const model::Source& source) { return encoders_->get(source).value(); };
  seams.media_function = [this](const model::Source& source, size_t field) {
    return media_functions_->get(source, field).value();
  };
  seams.transport = transport;
  seams.callouts = options.callouts;
  seams.batch_transform = batch_transform_.get();
  host_ = std::make_unique<host::RoleHost>(std::move(start), std::move(seams));
  return {};
}

RoleRuntime::~RoleRuntime() { stop(); }

void RoleRuntime::stop() {
  if (!host_ || !storage_) return;
  host_->stop();          // no role runs any more
  executor_->shutdown();  // no decoding, no packing
  if (spare_executor_) spare_executor_->shutdown();
  {
    const std::lock_guard lock(workers_mutex_);
    for (auto& [source, workers] : workers_) workers.costs = nullptr;
  }
  encoders_->clear();  // their last callbacks find stopped loops
  media_functions_->clear();
  batch_transform_.reset();
  storage_.reset();
  scratch_storage_.reset();
  journal_.reset();
}

// Looked at now and then: what a process had in between is not known.
void RoleRuntime::weigh_workers() {
  const std::lock_guard lock(workers_mutex_);
  for (auto& [source, workers] : workers_) {
    workers.now_bytes = workers.costs != nullptr ? workers.costs->worker_bytes() : 0;
    workers.peak_bytes = std::max(workers.peak_bytes, workers.now_bytes);
    if (workers.costs != nullptr) workers.python_ns = workers.costs->python_ns();
  }
}

// Of all slots of a source here: they share its encoder.
uint64_t RoleRuntime::tokenised_ns(SourceIndex source) const {
  uint64_t sum = 0;
  for (const host::RoleHost::LoaderView& view : host_->loaders()) {
    if (view.source == source) sum += view.probe->tokenise_ns;
  }
  return sum;
}

LoaderStatus RoleRuntime::loader_status(const host::RoleHost::LoaderView& view) {
  const loader::LoaderProbe& probe = *view.probe;
  LoaderStatus out;
  out.source = job_->spec.sources[view.source].name;
  out.slot = view.slot;
  out.queue = view.queue;
  out.blocks_in_work = *probe.blocks_in_work;
  out.standby = probe.standby;
  out.reads = probe.reads;
  out.counts = read_counts(probe);
  out.transform_ns = probe.transform_ns();
  out.buffer_bytes = probe.buffer.now;
  out.buffer_peak_bytes = probe.buffer.peak;
  out.reading_bytes = probe.reading->now;
  out.reading_peak_bytes = probe.reading->peak;
  out.in_flight_bytes = probe.in_flight->now;
  out.in_flight_peak_bytes = probe.in_flight->peak;
  const std::lock_guard lock(workers_mutex_);
  if (const auto workers = workers_.find(view.source); workers != workers_.end()) {
    out.worker_bytes = workers->second.now_bytes;
    out.worker_peak_bytes = workers->second.peak_bytes;
    split_python(workers->second.python_ns, tokenised_ns(view.source), &out);
  }
  return out;
}

std::optional<FunctionWait> RoleRuntime::asked_function() {
  if (!has_planner_) return std::nullopt;
  const planner::PlannerProbe& probe = host_->planner_probe();
  const uint8_t kind = probe.asked_kind;
  if (kind == 0) return std::nullopt;
  const auto asked = static_cast<model::CalloutKind>(kind);
  const model::CalloutFunction& function = job_->spec.strategy.function_of(asked);
  FunctionWait out;
  out.function = std::string(model::callout_kind_name(asked)) + " function " + function.name +
                 " (version " + function.version + ")";
  out.step = probe.asked_step;
  out.waiting_ns = clock_.now_ns() - probe.asked_since_ns;
  if (probe.asked_rank != planner::PlannerProbe::kHere) out.rank = probe.asked_rank;
  return out;
}

EngineStatus RoleRuntime::status() {
  EngineStatus out;
  if (has_planner_) out.planner.counts = read_counts(host_->planner_probe());
  out.planner.waits_for_function = asked_function();
  if (const auto* file = dynamic_cast<const storage::FileJournal*>(journal_.get())) {
    out.planner.journal = file->counts();
  }
  out.queue_depth = host_->queue_depth();
  weigh_workers();
  for (const host::RoleHost::LoaderView& view : host_->loaders()) {
    out.loaders.push_back(loader_status(view));
  }
  for (const auto& [address, probe] : host_->constructors()) {
    add_constructor({address.index, read_counts(*probe)}, &out.constructors);
  }
  const std::vector<host::RoleHost::Unpacking> unpacking = host_->unpacking();
  for (SourceIndex s = 0; s < unpacking.size(); ++s) {
    const auto& [counts, held_bytes, peak_bytes] = unpacking[s];
    if (counts.blobs == 0) continue;
    out.unpacking.push_back({job_->spec.sources[s].name, counts, held_bytes, peak_bytes});
  }
  const runtime::PoolStats pool = pool_->stats();
  out.memory = {host_->budget().used_bytes,
                host_->budget().limit_bytes,
                pool.held_bytes,
                pool.idle_bytes,
                pool.fresh_count,
                pool.reused_count};
  out.executor = executor_->stats();
  return out;
}

}  // namespace overlord::node
