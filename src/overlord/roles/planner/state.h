// PlannerState: what the planner knows. Changed only by apply(); holds no thread, clock or socket.
// The durable part (stream state, next step, hash chains) is what folding the journal gives back; a
// planner that comes back from one begins before the last plans and makes them again, in its term.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/base/status.h"
#include "overlord/model/callout.h"
#include "overlord/model/plan.h"
#include "overlord/model/source.h"
#include "overlord/plan/mix/meta_buffer.h"
#include "overlord/protocol/peer_generations.h"
#include "overlord/protocol/state_codec.h"
#include "overlord/roles/planner/journal_fold.h"

namespace overlord::planner {

struct MetaArrived {
  uint64_t sequence = 0;
  plan::MetaWindowPtr window;
};
struct GrantRaised {
  SourceIndex source = 0;
  uint64_t limit = 0;
};
struct PlanMade {  // on its way to the journal; the next one follows it
  model::PlanPtr plan;
};
struct PlanCommitted {  // durable in the journal
  StepIndex step = 0;
};
struct PlansWithdrawn {  // those from here on: another tree holds
  StepIndex from = 0;
};
struct PlanLate {};    // it became durable when it was needed already
struct PlanReleased {  // durable and within the runway: whoever needs it is told
  StepIndex step = 0;
};
struct ConstructorAcknowledged {
  protocol::Address constructor;
  StepIndex acknowledged = 0;
};
struct ConstructorRetired {  // of an earlier tree, all of whose steps are consumed
  protocol::Address constructor;
};
struct LateBadTold {  // on its way to the journal
  SampleId id;
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
struct RuleAsked {};     // the user's rule, about the next step it has not decided
struct RuleAnswered {};  // on its way to the journal
struct RuleFailed {      // it decides no further step
  Status status;
};
// The trainer's mesh as plans see it; rebuilding it makes a new version.
struct Tree {
  model::Mesh mesh;
  std::shared_ptr<const model::ViewTable> views;
  uint32_t version = 1;
  std::vector<Rank> ranks = {};  // of the mesh, in its order; empty: all of the job

  // Who makes the batches of a rank; unset: it is not there.
  std::optional<protocol::Address> seat_of(Rank rank) const;
};
struct TreeChanged {  // durable in the journal
  StepIndex first_step = 0;
  Tree tree;
  // Steps from the first on may have been heard of. What was made of them is of no use any more,
  // and its constructors go at once.
  bool again = false;
  // Where its ranks begin then; null: all of them have, long ago.
  std::shared_ptr<const protocol::ResumeState> restart = {};
};
struct CalloutAnswered {  // by a user's function, of the next step; durable in the journal
  StepIndex step = 0;
  model::CalloutKind kind = model::CalloutKind::kCost;
  std::vector<int64_t> values;
};
struct OwnersMove {  // a change of its slots is on its way to the journal
  SourceIndex source = 0;
};
struct OwnersChanged {  // durable
  protocol::OwnersRecord record;
};
struct LoadMeasured {  // of a slot, since it began
  protocol::Address slot;
  uint64_t busy_ns = 0;
};
struct LoadTaken {};   // what was measured so far has been looked at
struct TurnForeseen {  // the mixture will draw so many rows of it in a step
  SourceIndex source = 0;
  uint64_t rows = 0;
};
struct Failed {        // durable in the journal, where that can still be written
  StepIndex step = 0;  // the first that will not come
  Status status;
};
struct TermAsked {  // to promise that it heeds no earlier term
  protocol::Address role;
};
struct TermHeld {  // it has
  protocol::Address role;
};

using Event =
    std::variant<MetaArrived, GrantRaised, PlanMade, PlanCommitted, PlanReleased, PlansWithdrawn,
                 PlanLate, ConstructorAcknowledged, ConstructorRetired, LateBadTold,
                 LateBadCommitted, ReportArrived, FeedbackCommitted, RuleAsked, RuleAnswered,
                 RuleFailed, TreeChanged, CalloutAnswered, OwnersMove, OwnersChanged, LoadMeasured,
                 LoadTaken, TurnForeseen, Failed, TermAsked, TermHeld, protocol::PeerRestarted>;

// A constructor that plans are sent to: of one tree, from its first step until the next tree's.
struct ConstructorSlot {
  static constexpr StepIndex kNoEnd = std::numeric_limits<StepIndex>::max();

  protocol::Address address;
  StepIndex until = kNoEnd;
  StepIndex acknowledged = 0;
};

class PlannerState {
 public:
  using Parts = std::map<Rank, model::StepFeedback>;

  // `first_windows`: per source, the sequence number of the window its cursor stands in.
  // `feedback`: of the steps before, as far as it does not count yet.
  PlannerState(model::StreamState stream, std::vector<uint64_t> first_windows,
               const std::vector<uint32_t>& buckets, std::vector<model::StepFeedback> feedback = {},
               protocol::PeerGenerations peers = {});

  // What a journal tells of the plans that were made before and of everything beside them. The
  // state must be that of the journal's start, and nothing has been applied to it. `trees` are the
  // journal's; what retired comes as events.
  void take_over(const JournalFold& folded, const std::vector<TreeChanged>& trees);

  void apply(const Event& event);

  const model::StreamState& stream() const { return stream_; }
  StepIndex next_step() const { return stream_.next_step; }
  bool ended() const { return stream_.ended; }
  const std::optional<Failed>& failure() const { return failure_; }
  // Of a term that goes on from a journal: roles that have not promised to heed it. Nothing is
  // granted or planned, and nothing of theirs is heard, before they have.
  const std::set<protocol::Address>& unpromised() const { return unpromised_; }
  // The first step that no term has planned.
  StepIndex unplanned() const { return std::max(stream_.next_step, taken_until_); }
  // The first step whose plan no term has made durable; nobody has heard of it.
  StepIndex uncommitted() const { return std::max(committed_until_, taken_until_); }
  // Plans to make beyond the runway, so that those within it are durable in time.
  uint32_t ahead() const { return ahead_; }
  // The oldest plan that is durable and that nobody was told of yet; null: there is none.
  model::PlanPtr unreleased() const;
  // A plan that was made and not released; null: it was released, withdrawn, or is not made.
  model::PlanPtr made(StepIndex step) const;
  uint64_t plans_made() const { return made_.size(); }
  // The first step that nobody may have heard of, of this term or of an earlier one.
  StepIndex unheard() const {
    return std::max(made_.empty() ? stream_.next_step : made_.begin()->first, taken_until_);
  }
  // Plans of an earlier term are being made again, or will be.
  bool remaking() const { return !unpromised_.empty() || stream_.next_step < taken_until_; }
  // What the plan of a step was, where an earlier term has made it; else null.
  const protocol::PlanRecord* taken(StepIndex step) const;
  std::span<const plan::MetaBuffer> meta() const { return meta_; }
  uint64_t grant(SourceIndex source) const { return grants_[source]; }
  // Windows posted so far, each counted once; and the first of the sequence that has not been.
  uint64_t posted(SourceIndex source) const {
    return posted_below_[source] - first_[source] + posted_above_[source].size();
  }
  uint64_t posted_below(SourceIndex source) const { return posted_below_[source]; }
  // It was granted and has not been posted before.
  bool news(SourceIndex source, uint64_t sequence) const;
  // Windows granted so far: what `posted` will reach.
  uint64_t posted_target(SourceIndex source) const { return grants_[source] - first_[source]; }
  // The most that a step has drawn, or is foreseen to draw.
  uint64_t step_rows(SourceIndex source) const { return step_rows_[source]; }
  // Those that are needed: of the tree that holds now, of later ones, and of earlier ones as long
  // as some rank has not consumed their last step.
  const std::vector<ConstructorSlot>& constructors() const { return constructors_; }
  const ConstructorSlot* constructor(const protocol::Address& address) const;
  // Least step that some constructor has not acknowledged yet.
  StepIndex acknowledged() const;
  // The first step that the stream can go on from anew: a few that all are done with are kept.
  StepIndex kept_from() const { return base_.stream->next_step; }
  // Released plans that some constructor may still need, and the loaders it asks.
  const std::map<StepIndex, model::PlanPtr>& unacknowledged() const { return unacknowledged_; }
  bool told_bad(const SampleId& id) const { return late_rows_.contains(id); }
  bool late_bad_durable(const SampleId& id) const;
  const protocol::PeerGenerations& peers() const { return peers_; }
  uint64_t late_bad(SourceIndex source) const { return late_bad_[source]; }
  StepIndex first_step() const { return first_step_; }  // of this run
  // Feedback of a step, once all its reporters are in and it is durable; kept until it counts.
  const model::StepFeedback* feedback(StepIndex step) const;
  const std::map<StepIndex, model::StepFeedback>& pending_feedback() const { return feedback_; }
  // What has been reported of a step whose feedback is not complete and durable yet.
  const Parts* parts(StepIndex step) const;
  Rank last_reporter(StepIndex step) const;  // of those in `parts`
  // A user's rule decides one step after another, each with the newest weights before it.
  struct Rule {
    enum class Stage : uint8_t { kIdle, kAsked, kAnswered };
    StepIndex step = 0;  // the next that is not decided
    Stage stage = Stage::kIdle;
    std::vector<int64_t> weights;  // the newest; they may not count yet
    std::optional<Status> failure;
  };
  const Rule& rule() const { return rule_; }
  // The tree that a step is planned with; null: the job's own.
  const Tree* tree_at(StepIndex step) const;
  // Version of the newest tree; `own` where the job's was never rebuilt.
  uint32_t newest_tree(uint32_t own) const {
    return trees_.empty() ? own : trees_.rbegin()->second.version;
  }
  // The newest tree, from its first step on; null: the job's own.
  const std::pair<const StepIndex, Tree>* newest() const {
    return trees_.empty() ? nullptr : &*trees_.rbegin();
  }
  // What users' functions have answered of the next step.
  const model::CalloutAnswers& callout_answers() const { return callout_answers_; }
  // Who reads sources whose number of slots has changed, by source.
  const std::map<SourceIndex, protocol::OwnersRecord>& owners() const { return owners_; }
  const std::vector<model::OwnerRange>& owner_ranges(SourceIndex source) const;
  std::vector<model::SourceOwners> owner_changes() const;
  uint32_t owners_version() const { return owners_version_; }
  // How long workers of a source were at work since that was last looked at.
  uint64_t busy_ns(SourceIndex source) const;
  // What reading it has cost since this planner began, as far as its slots tell.
  const model::SourceCost& measured(SourceIndex source) const { return measured_[source]; }
  bool owners_move(SourceIndex source) const { return moving_.contains(source); }
  // The (pass, position) that a range begins with, once its first window has been posted.
  std::optional<std::pair<uint32_t, uint64_t>> range_starts(SourceIndex source,
                                                            uint64_t window) const;
  // Chained over every plan that was made: equal after folding the journal.
  const Digest& content_chain() const { return content_chain_; }
  const Digest& plan_chain() const { return plan_chain_; }

 private:
  struct Apply;
  void keep_feedback(model::StepFeedback feedback);
  void add_tree(const TreeChanged& change);
  void take_answers();
  bool starts_range(SourceIndex source, uint64_t window) const;

  model::StreamState stream_;
  StepIndex committed_until_;                 // the first step whose plan is not durable
  std::map<StepIndex, model::PlanPtr> made_;  // and not released
  struct Position {
    std::shared_ptr<const model::StreamState> stream;
    Digest content_chain = {}, plan_chain = {};
  };
  Position base_;                             // behind the last plan that is kept no more
  std::map<StepIndex, model::PlanPtr> kept_;  // of steps that all are done with
  uint32_t ahead_ = 0;
  std::vector<plan::MetaBuffer> meta_;
  std::vector<uint64_t> first_;         // window of each source's cursor at the start
  std::vector<uint64_t> grants_;        // windows granted, as a limit on the sequence number
  std::vector<uint64_t> posted_below_;  // every window before it has been posted
  std::vector<std::set<uint64_t>> posted_above_;  // and these, out of order
  std::vector<uint64_t> step_rows_;               // most rows one step draws, to size grants
  std::vector<model::SourceCost> measured_;
  std::vector<uint64_t> late_bad_;
  std::map<SampleId, bool> late_rows_;  // durable yet? As many as bad_rows_allowed lets live
  std::vector<ConstructorSlot> constructors_;
  std::map<StepIndex, model::PlanPtr> unacknowledged_;  // at most `runway`
  StepIndex first_step_;
  std::map<StepIndex, model::StepFeedback> feedback_;
  std::map<StepIndex, Parts> parts_;
  std::map<StepIndex, Rank> last_reporters_;
  Rule rule_;
  std::map<StepIndex, Tree> trees_;  // by the first step; those that no step needs any more go
  model::CalloutAnswers callout_answers_;
  std::optional<Failed> failure_;
  std::set<protocol::Address> unpromised_;
  std::map<StepIndex, protocol::PlanRecord> taken_;
  StepIndex taken_until_ = 0;
  std::map<StepIndex, model::CalloutAnswers> taken_answers_;
  protocol::PeerGenerations peers_;
  std::map<SourceIndex, protocol::OwnersRecord> owners_;
  uint32_t owners_version_ = 1;
  std::set<SourceIndex> moving_;
  std::map<protocol::Address, uint64_t> told_busy_ns_;
  std::map<SourceIndex, uint64_t> busy_ns_;
  std::map<std::pair<SourceIndex, uint64_t>, std::pair<uint32_t, uint64_t>> range_starts_;
  Digest content_chain_;
  Digest plan_chain_;
};

}  // namespace overlord::planner
