#include "overlord/node/engine/plan_cursor.h"

#include <map>

#include "overlord/node/engine/open_files.h"
#include "overlord/plan/mix/mix_schedule.h"
#include "overlord/plan/place/callout.h"
#include "overlord/roles/loader/meta_window.h"

namespace overlord::node {

PlanCursor::PlanCursor(std::shared_ptr<const host::OpenJob> job, protocol::ResumeState start,
                       runtime::Storage& storage, Encoders& encoders, CallFunction call)
    : job_(std::move(job)),
      base_(std::move(start)),
      storage_(storage),
      encoders_(encoders),
      state_(base_.state),
      meta_(job_->sources.size()),
      views_(plan::make_views(job_->mesh, job_->delivery, 1, job_->spec.strategy)),
      ledger_(base_.feedback, 2 * uint64_t{job_->spec.mixture.controller.delay}),
      call_(std::move(call)) {
  for (const auto& source : job_->sources) source_rows_.push_back(source->manifest.rows);
}

Result<model::PlanPtr> PlanCursor::next() {
  if (state_.ended) return model::PlanPtr();
  const std::optional<StepIndex> reported =
      plan::feedback_needed(state_.controller, state_.next_step);
  const model::StepFeedback* feedback = reported ? ledger_.find(*reported) : nullptr;
  for (;;) {
    OVERLORD_TRY(plan::Selection selection,
                 selector_.step(job_->spec, source_rows_, state_, meta_, feedback));
    if (!selection.content) {
      for (const plan::MetaNeed& need : selection.needs) OVERLORD_RETURN_IF_ERROR(post(need));
      continue;
    }
    model::Versions versions;
    versions.job = job_->config.low;
    versions.mixture = job_->spec.mixture.version;
    const plan::LossFinder loss(state_, meta_);
    plan::PlanInputs inputs{job_->spec, job_->mesh, job_->delivery, views_, versions, &loss};
    OVERLORD_TRY(const model::CalloutAnswers answers, call_functions(inputs, *selection.content));
    inputs.answers = &answers;
    OVERLORD_TRY(model::Plan made, plan::build_plan(inputs, state_.next_step, std::move(selection),
                                                    &placer_, &graph_));
    auto plan = std::make_shared<const model::Plan>(std::move(made));
    set_weights(*plan);
    state_ = *plan->state_after;
    for (size_t s = 0; s < meta_.size(); ++s) {
      meta_[s].trim(state_.cursors[s].pass, state_.cursors[s].position);
      meta_[s].forget(state_.cursors[s].pass, state_.cursors[s].position);
    }
    base_.content_chain = chain(base_.content_chain, plan->content_hash);
    base_.plan_chain = chain(base_.plan_chain, plan->plan_hash);
    return model::PlanPtr(std::move(plan));
  }
}

void PlanCursor::set_weights(const model::Plan& plan) {
  const model::JobSpec& spec = job_->spec;
  const uint32_t parts = spec.mixture.grain == model::Grain::kSubstep ? spec.substeps : 1;
  plan::MixMoment moment{plan.step, 0, 0, &plan.state_after->controller};
  moment.epoch = plan::epoch_at(spec.mixture, source_rows_, state_.cursors, plan.step);
  weights_.assign(spec.sources.size(), 0);
  std::vector<int64_t> weights;
  for (; moment.substep < parts; ++moment.substep) {
    plan::weights_at(spec, moment, &weights);
    for (size_t s = 0; s < weights.size(); ++s) {
      if (!state_.cursors[s].dry) weights_[s] += weights[s];
    }
  }
}

Result<model::CalloutAnswers> PlanCursor::call_functions(const plan::PlanInputs& inputs,
                                                         const plan::StepContent& content) {
  model::CalloutAnswers answers;
  if (!job_->spec.strategy.has_callout()) return answers;
  for (;;) {
    OVERLORD_TRY(const std::optional<model::CalloutRequest> request,
                 plan::next_callout(inputs, state_.next_step, content, answers));
    if (!request) return answers;
    if (!call_) {
      return invalid_argument("strategy: the Python function " + request->function.name +
                              " is not there");
    }
    Result<std::vector<int64_t>> answer = call_(*request);
    if (!answer.ok()) {
      return Status(answer.status().code(),
                    plan::callout_text(*request) + ": " + answer.status().message());
    }
    OVERLORD_RETURN_IF_ERROR(plan::check_answer(job_->spec, *request, *answer));
    answers.keep(request->kind, std::move(*answer));
  }
}

Status PlanCursor::report(const model::StepFeedback& feedback) {
  if (feedback.step >= state_.next_step) {
    return invalid_argument("step " + std::to_string(feedback.step) + " has not been planned");
  }
  for (const model::SourceLoss& loss : feedback.losses) {
    if (loss.source >= job_->sources.size()) return invalid_argument("no such source");
  }
  ledger_.add(feedback);
  return {};
}

protocol::ResumeState PlanCursor::state() const {
  protocol::ResumeState state = base_;
  state.state = state_;
  state.microbatch = 0;
  static_cast<void>(ledger_.attach(&state));  // as far as it was reported
  return state;
}

Status PlanCursor::post(const plan::MetaNeed& need) {
  const loader::OpenSource& source = *job_->sources[need.source];
  const plan::SourceOrder order =
      plan::make_order(source.spec, source.manifest, source.seed, need.pass);
  const uint64_t window = order.window_of(need.position);
  std::vector<plan::RowRef> rows;
  order.expand(window, &rows);
  const SampleId first{need.source, need.pass, order.window(window).first_position};
  model::MetaWindow made;
  if (source.manifest.meta_origin == model::MetaOrigin::kIndex) {
    made = loader::window_from_index(source, first, rows);
  } else {
    OVERLORD_TRY(runtime::TextEncoder * encoder, encoders_.get(source.spec));
    std::map<uint32_t, loader::TokenBlockPtr> blocks;
    std::map<uint32_t, std::string> broken;
    for (const plan::RowRef& ref : rows) {
      if (blocks.contains(ref.block) || broken.contains(ref.block)) continue;
      Result<loader::TokenBlockPtr> block = read_tokens(source, storage_, encoder, ref.block);
      if (block.ok()) {
        blocks[ref.block] = *block;
      } else if (block.status().code() == Code::kBadData) {
        broken[ref.block] = block.status().message();
      } else {
        return block.status();
      }
    }
    made = loader::window_from_blocks(source, first, rows, blocks, broken);
  }
  meta_[need.source].post(std::make_shared<const model::MetaWindow>(std::move(made)));
  return {};
}

}  // namespace overlord::node
