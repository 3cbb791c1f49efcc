// What becomes of plans on their way to another process, as carriers do it.
#include <algorithm>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/protocol/wire.h"
#include "overlord/sim/processes.h"

namespace overlord::sim {
namespace {

constexpr size_t kPlansRemembered = 64;

}  // namespace

// Constructors get their bucket as bytes, and their clients the whole as it was passed on.
void Processes::carry(protocol::Envelope* envelope) {
  if (const auto* published = std::get_if<protocol::PlanPublished>(&envelope->message)) {
    const model::Plan& plan = *published->plan;
    told_plans_[{plan.step, plan.versions.tree}] = published->plan;
    if (told_plans_.size() > kPlansRemembered) told_plans_.erase(told_plans_.begin());
    const auto sources = static_cast<uint32_t>(start_.job->spec.sources.size());
    const protocol::DecodeContext context{{{plan.layers.front().views}, sources}, nullptr, {}};
    auto carried = protocol::decode_message(
        protocol::encode_message(*published, {nullptr, envelope->to.index}), context);
    OVERLORD_CHECK(carried.ok(), "a part of a plan can be read");
    envelope->message = std::move(*carried);
  } else if (const auto* rows = std::get_if<protocol::RowsPlanned>(&envelope->message)) {
    auto carried = protocol::decode_message(protocol::encode_message(*rows, {}), {});
    OVERLORD_CHECK(carried.ok(), "rows of a plan can be read");
    envelope->message = std::move(*carried);
  } else if (auto* ready = std::get_if<protocol::StepReady>(&envelope->message)) {
    const auto whole = told_plans_.find({ready->step, ready->plan->versions.tree});
    if (whole != told_plans_.end()) ready->plan = whole->second;
    for (model::MicrobatchPtr& batch : ready->microbatches) {
      if (!batch->core->hdp) continue;
      auto core = std::make_shared<model::MicrobatchCore>(*batch->core);
      core->hdp = ready->plan->layers.front().hdp;
      auto carried = std::make_shared<model::Microbatch>(*batch);
      carried->core = std::move(core);
      batch = std::move(carried);
    }
  }
}

}  // namespace overlord::sim
