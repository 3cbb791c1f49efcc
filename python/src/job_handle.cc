#include "job_handle.h"

#include <algorithm>

#include "overlord/model/widen.h"
#include "overlord/node/engine/data_match.h"
#include "overlord/node/status/profile.h"
#include "overlord/plan/select/source_order.h"

namespace overlord::python {
namespace {

constexpr uint64_t kInspectPoolBytes = uint64_t{16} << 20;
constexpr uint32_t kInspectFiles = 16;

std::string reason_of(const std::vector<model::BadRow>& bad, uint32_t row) {
  for (const model::BadRow& entry : bad) {
    if (entry.index == row) return entry.reason;
  }
  return {};
}

}  // namespace

void tell_sources(const ToldSources& told, model::JobSpec* spec) {
  for (model::Source& source : spec->sources) {
    const auto found = told.find(source.name);
    if (found == told.end()) continue;
    source.shadows = std::max(source.shadows, found->second.shadows);
    if (found->second.loaders > 0) source.loaders = found->second.loaders;
    if (found->second.workers > 0) source.workers = found->second.workers;
    source.measured = found->second.measured;
  }
}

JobHandle::~JobHandle() {
  if (process_.here()) return;
  // In a forked child there are no threads to join: what owns them is left to the process's end.
  static_cast<void>(new std::shared_ptr<runtime::Storage>(std::move(storage_)));
  static_cast<void>(new std::shared_ptr<node::Encoders>(std::move(encoders_)));
  static_cast<void>(new std::shared_ptr<runtime::ThreadExecutor>(std::move(executor_)));
}

Result<JobHandle> JobHandle::make(model::JobSpec spec, model::DeliverySpec delivery,
                                  model::Mesh mesh, std::vector<std::string> index_paths) {
  JobHandle handle;
  auto pool = runtime::BufferPool::make(kInspectPoolBytes);
  OVERLORD_TRY(handle.storage_, node::open_storage_of(spec, {pool, 1, kInspectFiles}));
  OVERLORD_TRY(handle.job_, node::open_files(std::move(spec), std::move(delivery), std::move(mesh),
                                             index_paths, *handle.storage_));
  handle.index_paths_ = std::move(index_paths);
  return handle;
}

Result<protocol::ResumeState> JobHandle::state_of(const std::optional<std::string>& saved,
                                                  protocol::AllowedChanges allowed) const {
  if (!saved) return host::start_state(*job_);
  OVERLORD_TRY(protocol::ResumeState state, protocol::decode_resume_state(*saved));
  return node::resume_from(*job_, index_paths_, std::move(state), allowed);
}

Result<std::map<std::string, std::string>> JobHandle::changed_data(std::string_view saved) const {
  OVERLORD_TRY(protocol::ResumeState state, protocol::decode_resume_state(saved));
  return node::match_data(*job_, index_paths_, &state);
}

Result<std::shared_ptr<node::Engine>> JobHandle::open(OpenRequest request) {
  OVERLORD_TRY(protocol::ResumeState state, state_of(request.state, request.allowed));
  node::EngineOptions options;
  options.runtime = request.options;
  options.worker_command = std::move(request.worker_command);
  options.journal_path = std::move(request.journal_path);
  options.transforms = std::move(request.transforms);
  options.pinning = std::move(request.pinning);
  for (size_t s = 0; s < index_paths_.size(); ++s) {
    options.profile_paths.push_back(
        node::profile_path(index_paths_[s], job_->spec.sources[s].name));
  }
  std::shared_ptr<const host::OpenJob> job = job_;
  if (!request.told.empty()) {
    auto told = std::make_shared<host::OpenJob>(*job_);
    tell_sources(request.told, &told->spec);
    job = std::move(told);
  }
  OVERLORD_TRY(auto engine, node::EmbeddedEngine::start(job, std::move(request.ranks),
                                                        std::move(options), std::move(state)));
  return std::shared_ptr<node::Engine>(std::move(engine));
}

Result<std::unique_ptr<node::PlanCursor>> JobHandle::planner(
    const std::optional<std::string>& saved, std::vector<std::string> worker_command,
    node::CallFunction call, bool place) {
  OVERLORD_TRY(protocol::ResumeState state, state_of(saved, {}));
  if (!encoders_) {
    executor_ = std::make_shared<runtime::ThreadExecutor>(1, "ol-plan");
    OVERLORD_RETURN_IF_ERROR(executor_->status());
    encoders_ = std::make_shared<node::Encoders>(*executor_, std::move(worker_command), 1);
  }
  std::shared_ptr<const host::OpenJob> job = job_;
  if (!place) {
    auto plain = std::make_shared<host::OpenJob>(*job_);
    plain->spec.strategy = {};
    job = std::move(plain);
  }
  return std::make_unique<node::PlanCursor>(std::move(job), std::move(state), *storage_, *encoders_,
                                            std::move(call));
}

protocol::JobFile JobHandle::job_file(std::vector<Rank> ranks, const model::RuntimeOptions& options,
                                      std::vector<std::string> worker_command,
                                      std::string journal_path) const {
  protocol::JobFile file;
  file.spec = job_->spec;
  file.delivery = job_->delivery;
  file.mesh = job_->mesh;
  file.runtime = options;
  // Nodes that serve some of the ranks, without one that leads, each plan for themselves.
  file.runtime.one_planner = host::all_readers(*job_, ranks);
  std::sort(ranks.begin(), ranks.end());
  file.ranks = std::move(ranks);
  file.index_paths = index_paths_;
  file.worker_command = std::move(worker_command);
  file.journal_path = std::move(journal_path);
  return file;
}

RowPlace JobHandle::place_of(uint32_t source, uint32_t block, uint32_t row) const {
  const model::SourceManifest& manifest = job_->manifest.sources[source];
  const model::BlockEntry& entry = manifest.blocks[block];
  const model::ShardEntry& shard = manifest.shards[entry.shard];
  return {shard.uri, entry.first_row - shard.first_row + row, entry.first_row + row, block};
}

Result<RowPlace> JobHandle::locate(uint32_t source, uint32_t pass, uint64_t position) const {
  if (source >= job_->sources.size()) {
    return Status(Code::kOutOfRange, "source " + std::to_string(source) + " of " +
                                         std::to_string(job_->sources.size()));
  }
  const loader::OpenSource& open = *job_->sources[source];
  if (position >= open.manifest.rows) {
    return Status(Code::kOutOfRange, "position " + std::to_string(position) + " of source " +
                                         open.spec.name + " with " +
                                         std::to_string(open.manifest.rows) + " rows");
  }
  const plan::SourceOrder order = plan::make_order(open.spec, open.manifest, open.seed, pass);
  const uint64_t window = order.window_of(position);
  std::vector<plan::RowRef> rows;
  order.expand(window, &rows);
  const plan::RowRef ref = rows[position - order.window(window).first_position];
  return place_of(source, ref.block, ref.row);
}

Result<RowContent> JobHandle::read_row(uint32_t source, uint64_t row,
                                       const std::vector<std::string>& worker_command) {
  if (source >= job_->sources.size() || row >= job_->sources[source]->manifest.rows) {
    return Status(Code::kOutOfRange, "row " + std::to_string(row) + " of source " +
                                         std::to_string(source) + " does not exist");
  }
  const loader::OpenSource& open = *job_->sources[source];
  const auto after = std::upper_bound(
      open.manifest.blocks.begin(), open.manifest.blocks.end(), row,
      [](uint64_t value, const model::BlockEntry& block) { return value < block.first_row; });
  const auto block = static_cast<uint32_t>(after - open.manifest.blocks.begin()) - 1;
  const auto index = static_cast<uint32_t>(row - open.manifest.blocks[block].first_row);
  RowContent content;
  content.place = place_of(source, block, index);
  if (!kept_ || kept_->source != source || kept_->block != block) {
    OVERLORD_TRY(columnar::RowBlock read, node::read_block(open, *storage_, block));
    kept_ = KeptBlock{source, block, std::move(read)};
  }
  columnar::RowBlock& rows = kept_->rows;
  if (rows.is_text) {
    content.is_text = true;
    content.text = std::string(rows.text.rows.row(index));
    content.bad = reason_of(rows.text.bad, index);
    if (!content.bad.empty()) return content;
    if (!kept_->encoded) {
      OVERLORD_RETURN_IF_ERROR(planner(std::nullopt, worker_command).status());  // makes encoders_
      OVERLORD_TRY(runtime::TextEncoder * encoder, encoders_->get(open.spec));
      OVERLORD_TRY(auto made, node::read_tokens(open, *storage_, encoder, block));
      rows.tokens = *made;
      kept_->encoded = true;
    }
  }
  const columnar::TokenBlock& tokens = rows.tokens;
  if (tokens.counts[index] == model::kBadRow) {
    content.bad = reason_of(tokens.bad, index);
    return content;
  }
  content.tokens.resize(tokens.counts[index]);
  const model::TokenSpan span{
      tokens.values.data + tokens.begins[index] * model::element_bytes(tokens.element), nullptr,
      tokens.counts[index], tokens.element};
  model::widen(span, 0, span.count, content.tokens.data());
  if (tokens.mask.size > 0) {
    const char* mask = tokens.mask.data + tokens.begins[index];
    content.mask.assign(mask, mask + span.count);
  }
  return content;
}

}  // namespace overlord::python
