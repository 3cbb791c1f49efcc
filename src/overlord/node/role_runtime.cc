#include "overlord/node/role_runtime.h"

#include <algorithm>

#include "overlord/node/status_codec.h"
#include "overlord/runtime/memory_journal.h"
#include "overlord/storage/file_journal.h"

namespace overlord::node {
namespace {

constexpr size_t kRecordsKept = 64;  // of a journal in memory: for a look at the last plans
// Of memory for reading and decoding that is kept warm.
constexpr uint64_t kLeastScratchIdle = 4 << 20, kMostScratchIdle = 64 << 20;

Result<std::unique_ptr<runtime::Journal>> open_journal(const std::string& path) {
  if (path.empty()) {
    return std::unique_ptr<runtime::Journal>(
        std::make_unique<runtime::MemoryJournal>(kRecordsKept));
  }
  storage::JournalContents before;  // a resumed run goes on in the same file
  OVERLORD_TRY(auto journal, storage::FileJournal::open(path, &before));
  return std::unique_ptr<runtime::Journal>(std::move(journal));
}

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

void add_planner(const planner::PlannerProbe& planner, EngineStatus* out) {
  out->plans = planner.plans;
  out->planning_ns = planner.planning_ns;
  out->predicted_ns = planner.predicted_ns;
  out->arrival_ns = planner.arrival_ns;
  out->fullest_ns = planner.fullest_ns;
  out->bound_ns = planner.bound_ns;
  out->encoder_predicted_ns = planner.encoder_predicted_ns;
  out->encoder_arrival_ns = planner.encoder_arrival_ns;
  out->encoder_mean_ns = planner.encoder_mean_ns;
  out->encoder_bound_ns = planner.encoder_bound_ns;
  out->segments = planner.segments;
  out->segments_waited = planner.segments_waited;
  out->steps_waited = planner.steps_waited;
  out->longest_wait = planner.longest_wait;
  out->planner_waits = planner.waits;
  out->meta_windows = planner.meta_windows;
}

// A slot's share of the time in its source's own code, which so far counts as tokenising.
void split_python(uint64_t python_ns, uint64_t all_slots_ns, LoaderStatus* loader) {
  if (all_slots_ns == 0) return;
  const double share = static_cast<double>(loader->tokenise_ns) / static_cast<double>(all_slots_ns);
  const auto own = static_cast<uint64_t>(share * static_cast<double>(python_ns));
  loader->python_ns = std::min(own, loader->tokenise_ns);
  loader->tokenise_ns -= loader->python_ns;
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
  OVERLORD_TRY(journal_, open_journal(has_planner_ ? options.journal_path : std::string()));
  storage_ = std::make_unique<storage::LocalStorage>(pool_, runtime.io_threads, runtime.open_files);
  OVERLORD_RETURN_IF_ERROR(storage_->status());
  encoders_ =
      std::make_unique<Encoders>(*executor_, options.worker_command, runtime.tokenizer_processes);
  const TransformHosting hosting{options.transforms, runtime.one_planner};
  encoders_->set_transforms(hosting);
  media_functions_ = std::make_unique<MediaFunctions>(hosting);
  for (SourceIndex s = 0; s < job_->spec.sources.size(); ++s) {
    if (!hosts_loader_of(start.hosted, s)) continue;
    OVERLORD_TRY(const runtime::TextEncoder* encoder, encoders_->get(job_->spec.sources[s]));
    workers_[s].costs = dynamic_cast<const runtime::EncoderCosts*>(encoder);
    OVERLORD_RETURN_IF_ERROR(media_functions_->open(job_->spec.sources[s]));
  }
  if (job_->spec.batch_transform.declared()) {
    OVERLORD_TRY(batch_transform_,
                 make_batch_transform(job_->spec, {options.transforms, runtime.one_planner}));
  }
  const bool reads = !start.hosted.loaders || !start.hosted.loaders->empty();
  host::HostSeams seams;
  seams.executor = executor_.get();
  seams.storage = storage_.get();
  seams.clock = &clock_;
  seams.journal = journal_.get();
  seams.pool = pool_;
  if (options.pool && reads) {
    seams.scratch =
        runtime::BufferPool::make(scratch_idle_bytes(*job_, start.hosted, runtime.threads));
    scratch_storage_ = std::make_unique<storage::LocalStorage>(seams.scratch, runtime.io_threads,
                                                               runtime.open_files);
    OVERLORD_RETURN_IF_ERROR(scratch_storage_->status());
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
  out.in_work = probe.in_work;
  out.rows_posted = probe.rows_posted;
  out.documents = probe.documents;
  out.read_bytes = probe.read_bytes;
  out.buffer_bytes = probe.buffer.now;
  out.transform_ns = probe.transform_ns();
  out.read_wait_ns = probe.read_wait_ns;
  out.file_state_bytes = probe.file_state_bytes;
  out.bad_rows = probe.bad_rows;
  out.empty_rows = probe.empty_rows;
  out.blocks_read = probe.blocks_read;
  out.cache_hits = probe.cache_hits;
  out.decode_ns = probe.decode_ns;
  out.tokenise_ns = probe.tokenise_ns;
  out.media_ns = probe.media_ns;
  out.sent_bytes = probe.sent_bytes;
  out.decode_in_bytes = probe.decode_in_bytes;
  out.decode_out_bytes = probe.decode_out_bytes;
  out.tokenise_in_bytes = probe.tokenise_in_bytes;
  out.tokenise_out_bytes = probe.tokenise_out_bytes;
  out.media_in_bytes = probe.media_in_bytes;
  out.media_out_bytes = probe.media_out_bytes;
  out.media_blobs = probe.media_blobs;
  out.reading_bytes = probe.reading->now;
  out.reading_peak_bytes = probe.reading->peak;
  out.buffer_peak_bytes = probe.buffer.peak;
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

EngineStatus RoleRuntime::status() {
  EngineStatus out;
  if (has_planner_) add_planner(host_->planner_probe(), &out);
  out.queue_depth = host_->queue_depth();
  weigh_workers();
  for (const host::RoleHost::LoaderView& view : host_->loaders()) {
    out.loaders.push_back(loader_status(view));
  }
  for (const auto& [address, probe] : host_->constructors()) {
    add_constructor({address.index, probe->steps_ready, probe->steps_held, probe->payloads,
                     probe->assemble_ns, probe->bytes_assembled},
                    &out.constructors);
  }
  const std::vector<host::RoleHost::Unpacking> unpacking = host_->unpacking();
  for (SourceIndex s = 0; s < unpacking.size(); ++s) {
    const auto& [blobs, unpack_ns, in_bytes, out_bytes, held_bytes, peak_bytes] = unpacking[s];
    if (blobs == 0) continue;
    out.unpacking.push_back({job_->spec.sources[s].name, blobs, unpack_ns, in_bytes, out_bytes,
                             held_bytes, peak_bytes});
  }
  out.payload_bytes = host_->budget().used_bytes;
  out.payload_limit_bytes = host_->budget().limit_bytes;
  out.pool = pool_->stats();
  out.executor = executor_->stats();
  return out;
}

}  // namespace overlord::node
