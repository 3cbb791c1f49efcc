// PlannerState: what the planner knows. Changed only by apply(); holds no thread, clock or socket.
// The durable part (stream state, next step, hash chains) is what folding the journal gives back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/base/status.h"
#include "overlord/model/callout.h"
#include "overlord/model/plan.h"
#include "overlord/plan/meta_buffer.h"

namespace overlord::planner {

struct MetaArrived {
  plan::MetaWindowPtr window;
};
struct GrantRaised {
  SourceIndex source = 0;
  uint64_t limit = 0;
};
struct PlanCommitted {  // durable in the journal
  model::PlanPtr plan;
};
struct ConstructorAcknowledged {
  uint32_t bucket = 0;
  StepIndex acknowledged = 0;
};
struct LateBadCommitted {
  SampleId id;
};
struct ReportArrived {  // one reporter's part of a step's feedback
  Rank rank = 0;
  model::StepFeedback part;
};
struct FeedbackCommitted {  // all parts of a step, summed; durable in the journal
  model::StepFeedback feedback;
};
// The trainer's mesh as plans see it; rebuilding it makes a new version.
struct Tree {
  model::Mesh mesh;
  std::shared_ptr<const model::ViewTable> views;
  uint32_t version = 1;
};
struct TreeChanged {  // durable in the journal
  StepIndex first_step = 0;
  Tree tree;
};
struct CalloutAnswered {  // by a user's function, of the next step; durable in the journal
  StepIndex step = 0;
  model::CalloutKind kind = model::CalloutKind::kCost;
  std::vector<int64_t> values;
};
struct Failed {
  Status status;
};

using Event =
    std::variant<MetaArrived, GrantRaised, PlanCommitted, ConstructorAcknowledged, LateBadCommitted,
                 ReportArrived, FeedbackCommitted, TreeChanged, CalloutAnswered, Failed>;

class PlannerState {
 public:
  using Parts = std::map<Rank, model::StepFeedback>;

  // `first_windows`: per source, the sequence number of the window its cursor stands in.
  // `feedback`: of the steps before, as far as it does not count yet.
  PlannerState(model::StreamState stream, std::vector<uint64_t> first_windows,
               std::vector<uint32_t> buckets, std::vector<model::StepFeedback> feedback = {});

  void apply(const Event& event);

  const model::StreamState& stream() const { return stream_; }
  StepIndex next_step() const { return stream_.next_step; }
  bool ended() const { return stream_.ended; }
  const std::optional<Status>& failure() const { return failure_; }
  std::span<const plan::MetaBuffer> meta() const { return meta_; }
  uint64_t grant(SourceIndex source) const { return grants_[source]; }
  uint64_t posted(SourceIndex source) const { return posted_[source]; }
  // Windows granted so far: what `posted` will reach.
  uint64_t posted_target(SourceIndex source) const { return grants_[source] - first_[source]; }
  uint64_t step_rows(SourceIndex source) const { return step_rows_[source]; }
  // Least step that some hosted constructor has not acknowledged yet.
  StepIndex acknowledged() const;
  uint64_t late_bad(SourceIndex source) const { return late_bad_[source]; }
  StepIndex first_step() const { return first_step_; }  // of this run
  // Feedback of a step, once all its reporters are in and it is durable; kept until it counts.
  const model::StepFeedback* feedback(StepIndex step) const;
  const std::map<StepIndex, model::StepFeedback>& pending_feedback() const { return feedback_; }
  // What has been reported of a step whose feedback is not complete and durable yet.
  const Parts* parts(StepIndex step) const;
  // The tree that a step is planned with; null: the job's own.
  const Tree* tree_at(StepIndex step) const;
  // Version of the newest tree; `own` where the job's was never rebuilt.
  uint32_t newest_tree(uint32_t own) const {
    return trees_.empty() ? own : trees_.rbegin()->second.version;
  }
  // What users' functions have answered of the next step.
  const model::CalloutAnswers& callout_answers() const { return callout_answers_; }
  // Chained over every committed plan: equal after folding the journal.
  const Digest& content_chain() const { return content_chain_; }
  const Digest& plan_chain() const { return plan_chain_; }

 private:
  struct Apply;
  model::StreamState stream_;
  std::vector<plan::MetaBuffer> meta_;
  std::vector<uint64_t> first_;      // window of each source's cursor at the start
  std::vector<uint64_t> grants_;     // windows granted, as a limit on the sequence number
  std::vector<uint64_t> posted_;     // windows posted so far
  std::vector<uint64_t> step_rows_;  // most rows one step has drawn, to size grants
  std::vector<uint64_t> late_bad_;
  std::vector<uint32_t> buckets_;
  std::vector<StepIndex> acknowledged_;  // parallel to buckets_
  StepIndex first_step_;
  std::map<StepIndex, model::StepFeedback> feedback_;
  std::map<StepIndex, Parts> parts_;
  std::map<StepIndex, Tree> trees_;  // by the first step; those that no step needs any more go
  model::CalloutAnswers callout_answers_;
  std::optional<Status> failure_;
  Digest content_chain_;
  Digest plan_chain_;
};

}  // namespace overlord::planner
