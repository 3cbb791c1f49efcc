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
  encoders_->set_transforms({options.transforms, runtime.one_planner});
  for (SourceIndex s = 0; s < job_->spec.sources.size(); ++s) {
    if (!hosts_loader_of(start.hosted, s)) continue;
    OVERLORD_RETURN_IF_ERROR(encoders_->get(job_->spec.sources[s]).status());
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
  encoders_->clear();     // their last callbacks find stopped loops
  batch_transform_.reset();
  storage_.reset();
  scratch_storage_.reset();
  journal_.reset();
}

EngineStatus RoleRuntime::status() {
  EngineStatus out;
  if (has_planner_) add_planner(host_->planner_probe(), &out);
  out.queue_depth = host_->queue_depth();
  for (const host::RoleHost::LoaderView& view : host_->loaders()) {
    const loader::LoaderProbe& probe = *view.probe;
    out.loaders.push_back({job_->spec.sources[view.source].name, view.slot, view.queue,
                           probe.in_work, probe.rows_posted, probe.documents, probe.read_bytes,
                           probe.buffer_bytes, probe.transform_ns(), probe.read_wait_ns,
                           probe.file_state_bytes, probe.bad_rows, probe.blocks_read,
                           probe.cache_hits, probe.decode_ns, probe.tokenise_ns, probe.media_ns,
                           probe.sent_bytes});
  }
  for (const auto& [address, probe] : host_->constructors()) {
    add_constructor({address.index, probe->steps_ready, probe->steps_held, probe->payloads,
                     probe->assemble_ns, probe->bytes_assembled},
                    &out.constructors);
  }
  out.payload_bytes = host_->budget().used_bytes;
  out.payload_limit_bytes = host_->budget().limit_bytes;
  out.pool = pool_->stats();
  out.executor = executor_->stats();
  return out;
}

}  // namespace overlord::node
