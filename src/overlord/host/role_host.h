// RoleHost: roles of one job over given seams, all of them or a few. A library object: no globals,
// no signal handlers, no threads of its own, so that a thread pool, a process, a Ray actor or the
// simulator can hold it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/host/open_job.h"
#include "overlord/model/job_spec.h"
#include "overlord/protocol/control.h"
#include "overlord/protocol/messages.h"
#include "overlord/protocol/state_codec.h"
#include "overlord/roles/client/role.h"
#include "overlord/roles/constructor/role.h"
#include "overlord/roles/loader/role.h"
#include "overlord/roles/planner/journal_fold.h"
#include "overlord/roles/planner/role.h"
#include "overlord/roles/planner/tree.h"
#include "overlord/runtime/batch_transform.h"
#include "overlord/runtime/buffer.h"
#include "overlord/runtime/media_function.h"
#include "overlord/runtime/role_loop.h"
#include "overlord/runtime/seams.h"
#include "overlord/runtime/shared_mutex.h"

namespace overlord::host {

struct HostSeams {
  runtime::Executor* executor = nullptr;
  runtime::Executor* spare_executor = nullptr;  // see loader::LoaderSeams
  runtime::Storage* storage = nullptr;
  runtime::Clock* clock = nullptr;
  runtime::Journal* journal = nullptr;
  std::shared_ptr<runtime::BufferPool> pool;
  // Where `pool` is shared with other processes: memory for what nobody else will see, and a
  // storage that reads into it. Null: `pool` and `storage` serve for everything.
  std::shared_ptr<runtime::BufferPool> scratch;
  runtime::Storage* scratch_storage = nullptr;
  // The encoder of a source's tokenizer; asked once per source that holds text.
  std::function<runtime::TextEncoder*(const model::Source&)> encoder;
  // The user's function over a source's media field (its place in Source::media), null where it has
  // none; may be empty where no source has any.
  std::function<runtime::MediaFunction*(const model::Source&, size_t)> media_function = {};
  // Carries envelopes to the deliver() of whoever hosts the addressee; null: handed over at once,
  // for a host of all roles.
  runtime::Transport<protocol::Envelope>* transport = nullptr;
  // Asks the functions that the strategy names; null where it names none.
  planner::Callouts* callouts = nullptr;
  // Runs the job's batch transform; null where it has none.
  runtime::BatchTransform* batch_transform = nullptr;
};

// Which roles of the job live in this host; the others are reached through the transport. What is
// not named is hosted whole.
struct HostedRoles {
  bool planner = true;
  std::optional<std::vector<protocol::Address>> loaders;
  std::optional<std::vector<uint32_t>> constructors;  // by bucket
  std::optional<std::vector<Rank>> clients;           // of `ranks`
  std::vector<protocol::Address> standby = {};        // of `loaders`: active elsewhere
};

// A restarted host starts from the same state as the first: its peers tell it what has been done.
struct HostStart {
  std::shared_ptr<const OpenJob> job;
  std::vector<Rank> ranks;  // all that the planner serves, ascending; wherever their clients live
  HostedRoles hosted;
  // Of every slot that is not in its first generation: those hosted here, and their peers as far as
  // they have been restarted before this host began.
  std::map<protocol::Address, uint32_t> generations;
  model::RuntimeOptions options;
  uint32_t attempt = 1;  // of the trainers, law 13
  // What the journal of this run tells a planner that goes on from it, in the next term: its
  // generation. Null: it starts from `state`.
  std::shared_ptr<const planner::JournalFold> folded = nullptr;
  std::string run = {};       // in the journal; see JournalStart
  bool share_batches = true;  // false: every rank has its own, for measurements
  protocol::ResumeState state;
  std::function<void(Rank, client::ReadyStep)> deliver;  // on the client's loop
  // The same: what was delivered to a rank from there on is void, and comes again.
  std::function<void(Rank, const planner::TreeChanged&)> restarted = {};
  std::function<void(loader::QuarantineNote)> quarantined;  // on a loader's loop
  // Of metric-driven mixtures, may be empty: a report was answered (on the client's loop), a step's
  // feedback is complete (on the planner's).
  std::function<void(Rank, protocol::ReportAnswered)> answered;
  std::function<void(const model::StepFeedback&)> fed_back;
  // A user's mixing rule is asked in the process of this rank; on the client's loop.
  std::function<void(Rank, model::StepFeedback)> rule_asked = {};
  // So is a function of the strategy, where the planner has nobody else to ask.
  std::function<void(Rank, protocol::CalloutAsked)> callout_asked = {};
  // Where roles live in several hosts: the tree of later steps is durable. Every host that has
  // constructors takes it, then those with clients, then `ready` is called. And: a constructor of
  // an earlier tree is needed no more. Both on the planner's loop; empty in a host of all roles.
  std::function<void(const planner::TreeChanged&, std::function<void()> ready)> tree_changed = {};
  std::function<void(const protocol::Address&)> retired = {};
  // The planner's journal belongs to a later term: this planner says and plans nothing any more.
  std::function<void(const Status&)> superseded = {};
};

class RoleHost final : public runtime::Transport<protocol::Envelope> {
 public:
  using Loop = runtime::RoleLoop<runtime::Task>;

  RoleHost(HostStart start, HostSeams seams);
  ~RoleHost() override;

  void start();
  // No handler runs after it returned. Idempotent.
  void stop();
  // The trainer of `rank` is done with `step`, which was planned for `tree`.
  void consumed(Rank rank, StepIndex step, uint32_t tree);
  // What `rank` measured of a step it has consumed; HostStart::answered gets the verdict.
  void report(Rank rank, model::StepFeedback part);
  void tell_planner(Rank rank, protocol::Message message);
  // Plans from a step on are made for another mesh with as many ranks; `done` gets that step, or
  // why not, on the planner's loop.
  void rebuild_tree(planner::TreeWish wish, planner::Planner::TreeAnswer done);
  // Steps from the change's first on are of another tree: makes its constructors, all or those of
  // the named buckets, in the generation of this host, and tells the clients whom to ask. Nothing
  // to do for what is known. Any thread.
  void take_tree(const planner::TreeChanged& change,
                 const std::optional<std::vector<uint32_t>>& constructors = std::nullopt,
                 uint32_t generation = 1);
  // A loader, a client or a constructor of the job's own tree comes after the start, in this
  // generation; a client from `first_step` on. Roles here are told as by peer_restarted(), those
  // elsewhere by whoever placed it; trees that have come meanwhile it is told by take_tree(). A
  // planner comes with its host alone: it needs what was planned before it. Any thread.
  void add(const protocol::Address& role, uint32_t generation = 1,
           std::optional<StepIndex> first_step = std::nullopt);
  // A loader that is active in another host comes here as its shadow: it follows the plans and says
  // nothing. Any thread.
  void add_standby(const protocol::Address& role);
  // It is active here from now on, in this generation; one that was active already says again what
  // may have been refused. Roles here are told as by peer_restarted(). Any thread.
  void promote(const protocol::Address& role, uint32_t generation);
  // Loaders as a roster has them here: shadows that are to be active are promoted, active ones that
  // are to stand by are made anew. Returns how many shadows were promoted. Any thread.
  size_t settle_loaders(const std::vector<protocol::RoleGeneration>& active,
                        const std::vector<protocol::Address>& standby);
  // A role that is not needed here any more: no handler of it runs after it returned, what is sent
  // to it is dropped, and the others notice nothing. Any thread but its own loop's.
  void retire(const protocol::Address& role);
  // Where a carrier puts an envelope that has arrived; one for a role elsewhere is dropped.
  void deliver(protocol::Envelope envelope);
  // A role that lives elsewhere was restarted: told to every role here, which send it again what
  // may have been lost. So call it when nothing that is sent to the new one is lost any more.
  void peer_restarted(const protocol::Address& role, uint32_t generation);
  std::vector<protocol::Address> hosted() const;
  // What messages of this job and attempt carry, in the first generation.
  const model::Versions& versions() const { return versions_; }

  struct LoaderView {
    SourceIndex source = 0;
    uint32_t slot = 0;
    const loader::LoaderProbe* probe = nullptr;
    size_t queue = 0;
  };
  std::vector<LoaderView> loaders() const;
  // Only where the planner is hosted.
  const planner::PlannerProbe& planner_probe() const;
  const planner::PlannerState& planner_state() const;
  // Those that have not retired; probes live as long as the host.
  std::map<protocol::Address, const constructor::ConstructorProbe*> constructors() const;
  // What unpacking media has cost all constructors that there are or were, by source.
  struct Unpacking {
    constructor::UnpackCounts<Plain> counts;
    uint64_t held_bytes = 0, peak_bytes = 0;
  };
  std::vector<Unpacking> unpacking() const;
  client::ClientProbe& client_probe(Rank rank);
  const loader::PayloadBudget& budget() const { return *budget_; }
  size_t queue_depth() const;  // messages waiting in all loops

 private:
  void send(protocol::Envelope envelope) override;  // direct carrier
  struct Hosted {                                   // one role and its mailbox
    std::unique_ptr<Loop> loop;
    std::variant<std::unique_ptr<planner::Planner>, std::unique_ptr<loader::Loader>,
                 std::unique_ptr<constructor::Constructor>, std::unique_ptr<client::Client>>
        role;

    template <typename Role>
    Role* as() const {  // null: of another kind
      const auto* held = std::get_if<std::unique_ptr<Role>>(&role);
      return held == nullptr ? nullptr : held->get();
    }
    std::function<void(runtime::Task)> poster() const;
    void stop();
  };
  // Does `work` on the role's loop; nothing where it is not hosted.
  template <typename Role, typename Work>
  void post_to(const protocol::Address& address, Work work);
  template <typename Role>
  Role& hosted_role(const protocol::Address& address) const;
  // Where a role is made: in the constructor, or with `mutex_` held.
  Hosted& make_home(const protocol::Address& address);
  void make_planner();
  void make_loader(const protocol::Address& address, bool standby);
  void make_constructor(const planner::Tree& tree, uint32_t bucket, StepIndex first_step);
  void make_client(Rank rank, StepIndex first_step);
  void heed_term(const model::Versions& planner);
  model::Versions versions_of(const protocol::Address& address) const;
  uint32_t reports_kept() const;
  void shed_all();

  const HostStart start_;
  const std::shared_ptr<const OpenJob> job_;
  HostSeams seams_;
  runtime::Transport<protocol::Envelope>* carrier_;
  model::Versions versions_;
  const std::shared_ptr<const model::ViewTable> views_;
  std::vector<uint32_t> buckets_;  // of the job's own tree
  std::shared_ptr<loader::PayloadBudget> budget_;
  std::atomic<int64_t> last_shed_ns_{0};
  mutable runtime::SharedMutex mutex_;  // of all below but the atomic one: roles come and go
  std::map<protocol::Address, uint32_t> generations_;  // newest known
  std::map<protocol::Address, std::unique_ptr<Hosted>> roles_;
  // That anybody here was told of: a loader that is made anew keeps what the one before promised,
  // and answers what it was asked.
  std::atomic<uint32_t> newest_term_{1};
  std::map<protocol::Address, uint32_t> active_;  // loaders that are no shadows: their generation
  // Stopped; kept because tasks in the executor may point at them. They hold no data any more.
  std::vector<std::unique_ptr<Hosted>> retired_;
  bool stopped_ = false;
};

}  // namespace overlord::host
