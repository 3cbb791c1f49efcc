#include "overlord/host/open_job.h"

#include <algorithm>
#include <optional>
#include <set>

#include "overlord/host/feedback_ledger.h"
#include "overlord/host/media_checks.h"
#include "overlord/plan/mix/mix_controller.h"
#include "overlord/plan/mix/mix_schedule.h"
#include "overlord/plan/place/place_tree.h"
#include "overlord/plan/select/selection.h"

namespace overlord::host {
namespace {

Status check_bins(const model::JobSpec& spec) {
  std::optional<StepIndex> before;
  for (const auto& [first_step, bins] : spec.bin_stages()) {
    if (before && first_step <= *before) return invalid_argument("bins: steps must ascend");
    before = first_step;
    if (bins == 0) return invalid_argument("bins: starts at 1, got 0");
    if (spec.substeps == 0 || bins % spec.substeps != 0) {
      return invalid_argument("substeps: must divide bins " + std::to_string(bins) + ", got " +
                              std::to_string(spec.substeps));
    }
    if (uint64_t{bins} * spec.context > (uint64_t{1} << 40)) {
      return invalid_argument("bins x context: more than 2^40 tokens a step");
    }
  }
  return {};
}

// Groups are whole documents of one sequence, and neighbours in the order.
Status check_groups(const model::JobSpec& spec, const model::Source& source) {
  if (!source.groups.declared()) return {};
  const auto refused = [&](const std::string& why) {
    return invalid_argument("source " + source.name + ": groups of rows " + why);
  };
  const auto& columns = source.metadata_columns;
  if (!source.groups.column.empty() &&
      std::find(columns.begin(), columns.end(), source.groups.column) == columns.end()) {
    return refused("by column '" + source.groups.column + "', which is not among its metadata");
  }
  if (source.shuffle == model::Shuffle::kFull) {
    return refused("are torn by shuffle: full; use window or none");
  }
  if (source.over_length != model::OverLength::kDrop ||
      spec.packing.method != model::Packing::kBestFit) {
    return refused("are kept whole: they need packing best_fit and over_length: drop");
  }
  if (source.filter) return refused("and sub-sources by a column do not go together");
  if (spec.strategy.atoms == model::Atoms::kSlices) {
    return refused("and strategy.hybrid, which cuts sequences, do not go together");
  }
  return {};
}

Status check_sources(const model::JobSpec& spec) {
  if (spec.sources.empty()) return invalid_argument("sources: a job needs at least one");
  for (size_t s = 0; s < spec.sources.size(); ++s) {
    const model::Source& source = spec.sources[s];
    if (s > 0 && !(spec.sources[s - 1].name < source.name)) {
      return invalid_argument("sources: names must be sorted and unique, see " + source.name);
    }
    if (source.loaders == 0 || source.workers == 0) {
      return invalid_argument("source " + source.name + ": loaders and workers start at 1");
    }
    if (source.window_rows == 0 || source.window_bytes == 0) {
      return invalid_argument("source " + source.name +
                              ": window_rows and window_bytes start at 1");
    }
    OVERLORD_RETURN_IF_ERROR(check_groups(spec, source));
  }
  return {};
}

Status check_columns(const model::JobSpec& spec) {
  std::set<std::string> declared;
  for (const model::Source& source : spec.sources) {
    const std::vector<std::string>& own = source.metadata_columns;
    declared.insert(own.begin(), own.end());
    for (const model::MediaField& field : source.media) {
      if (!field.use) continue;
      for (const std::string& column : {model::count_column(field), model::units_column(field)}) {
        if (std::find(own.begin(), own.end(), column) != own.end()) {
          return invalid_argument("source " + source.name + ": metadata '" + column +
                                  "' is what its media field '" + field.name +
                                  "' gives; rename one of them");
        }
        declared.insert(column);
      }
    }
    if (source.filter && std::find(own.begin(), own.end(), source.filter->column) == own.end()) {
      return invalid_argument("source " + source.name + ": split by column '" +
                              source.filter->column + "', which is not among its metadata");
    }
  }
  if (declared.contains("tokens")) {
    return invalid_argument("metadata: every sample has the column 'tokens' already");
  }
  if (std::equal(declared.begin(), declared.end(), spec.columns.begin(), spec.columns.end())) {
    return {};
  }
  return invalid_argument("columns: not those of the sources together, sorted");
}

}  // namespace

Status check_spec(const model::JobSpec& spec) {
  if (spec.context == 0) return invalid_argument("context: starts at 1, got 0");
  if (spec.align == 0 || spec.context % spec.align != 0) {
    return invalid_argument("align: must divide context " + std::to_string(spec.context) +
                            ", got " + std::to_string(spec.align));
  }
  OVERLORD_RETURN_IF_ERROR(check_bins(spec));
  OVERLORD_RETURN_IF_ERROR(check_sources(spec));
  OVERLORD_RETURN_IF_ERROR(check_columns(spec));
  if (spec.leftover == model::Leftover::kDropLast && spec.mixture.metric_driven()) {
    return invalid_argument(
        "leftover: drop_last looks a step ahead, and a mixture that follows losses is not known "
        "there; use drain or drop");
  }
  OVERLORD_RETURN_IF_ERROR(check_media(spec));
  if (spec.batch_transform.declared() && spec.strategy.atoms == model::Atoms::kSlices) {
    return invalid_argument(
        "batch_transform: a function over microbatches sees whole "
        "sequences, and strategy.hybrid cuts them");
  }
  return plan::check_mixture(spec);
}

Result<std::shared_ptr<const OpenJob>> open_job(
    model::JobSpec spec, model::DeliverySpec delivery, model::Mesh mesh,
    std::vector<std::shared_ptr<const loader::OpenSource>> sources) {
  OVERLORD_RETURN_IF_ERROR(check_spec(spec));
  OVERLORD_RETURN_IF_ERROR(plan::check_fit(spec, mesh, delivery));
  OVERLORD_RETURN_IF_ERROR(plan::check_strategy(spec, mesh, delivery));
  if (spec.window.steps > 1) {
    OVERLORD_RETURN_IF_ERROR(model::check_cost_model(spec.window.cost));
    OVERLORD_RETURN_IF_ERROR(plan::check_cost_columns(spec.window.cost, spec, "window.cost"));
    if (spec.mixture.metric_driven()) {
      return invalid_argument("window.steps: a metric-driven mixture follows every step, got " +
                              std::to_string(spec.window.steps) + "; set window.steps to 1");
    }
    if (spec.window.width == 0) return invalid_argument("window.width: starts at 1, got 0");
  }
  if (uint64_t{delivery.microbatch_size} * spec.context >= (uint64_t{1} << 31)) {
    return invalid_argument("microbatch_size x context: must stay below 2^31 tokens");
  }
  auto job = std::make_shared<OpenJob>();
  OVERLORD_CHECK(sources.size() == spec.sources.size(), "one open source per source");
  for (const auto& source : sources) {
    if (source->manifest.rows == 0) {
      return invalid_argument("source " + source->spec.name + ": no rows");
    }
    OVERLORD_RETURN_IF_ERROR(add_media_layouts(*source, &job->media));
    job->manifest.sources.push_back(source->manifest);
    job->manifest.digest = chain(job->manifest.digest, digest_of(source->spec.name));
    job->manifest.digest = chain(job->manifest.digest, source->manifest.digest);
  }
  job->config = protocol::config_digest(spec);
  job->sections = protocol::section_digests(spec);
  job->spec = std::move(spec);
  job->delivery = std::move(delivery);
  job->mesh = std::move(mesh);
  job->sources = std::move(sources);
  return std::shared_ptr<const OpenJob>(std::move(job));
}

bool all_readers(const OpenJob& job, const std::vector<Rank>& ranks) {
  const auto views = plan::make_views(job.mesh, job.delivery, 1, job.spec.strategy);
  const std::vector<Rank> served = plan::ranks_served(*views, /*payload=*/true);
  return std::all_of(served.begin(), served.end(), [&](Rank rank) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  });
}

protocol::ResumeState start_state(const OpenJob& job) {
  protocol::ResumeState state;
  state.stream = job.spec.stream;
  state.config = job.config;
  state.manifest = job.manifest.digest;
  state.sections = job.sections;
  for (const model::SourceManifest& source : job.manifest.sources) {
    state.source_names.push_back(source.name);
    state.source_digests.push_back(source.digest);
  }
  state.columns = job.spec.columns;
  state.bins = job.spec.bin_stages();
  state.state = plan::initial_state(job.spec);
  return state;
}

Result<protocol::ResumeState> resume_from(const OpenJob& job, const protocol::ResumeState& saved,
                                          protocol::AllowedChanges allowed) {
  protocol::ResumeState state = start_state(job);
  OVERLORD_TRY(state.state, protocol::adapt_state(saved, job.spec, job.manifest, allowed));
  state.microbatch = saved.microbatch;
  state.content_chain = saved.content_chain;
  state.plan_chain = saved.plan_chain;
  if (state.state.controller.sources.empty()) {
    state.state.controller = plan::initial_controller(job.spec, state.state.next_step);
  } else if (FeedbackLedger(saved.feedback, saved.feedback.size()).attach(&state)) {
    return Status(Code::kStateMismatch,
                  "resume state: a metric-driven stream cannot go on without what was reported of "
                  "the steps before");
  }
  for (size_t s = 0; s < job.sources.size(); ++s) {
    if (state.state.cursors[s].position > job.sources[s]->manifest.rows) {
      return Status(Code::kOutOfRange, "resume state: source " + job.spec.sources[s].name +
                                           " stands at row " +
                                           std::to_string(state.state.cursors[s].position) +
                                           " of " + std::to_string(job.sources[s]->manifest.rows));
    }
  }
  return state;
}

}  // namespace overlord::host
