// Control: what the processes of one job say to each other beside the roles' own messages: who they
// are, who may attach, where roles live, whose memory is whose. Versioned like everything else; a
// process that speaks another version is refused by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/hash.h"
#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/model/group_end.h"
#include "overlord/model/mesh.h"
#include "overlord/model/mixture.h"
#include "overlord/model/plan.h"
#include "overlord/protocol/messages.h"
#include "overlord/protocol/spec_codec.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::protocol {

inline constexpr uint32_t kControlFormat = 13;

// First words of a process that connects to another of the same host.
struct Hello {
  uint32_t format = kControlFormat;
  std::string name;  // "loaders-0", "constructors-0", "rank-3", "top"
  uint32_t generation = 1;
  uint64_t job = 0;  // 0: of whichever job the other serves
  uint32_t attempt = 0;
  std::vector<Address> roles;  // that live in it
  std::string wire;            // where processes of other hosts call it; empty: nowhere

  OVERLORD_FIELDS(format, name, generation, job, attempt, roles, wire)
};

// trainer -> node: these ranks want to read. Serving starts when all expected ranks have said so
// and agree on everything here but the ranks.
// What a host gives to loaders.
struct HostGift {
  uint32_t cores = 0;                   // 0: nothing
  uint64_t memory_bytes = 0;            // 0: it does not say
  bool memory_enforced = false;         // by the kernel; else budgets alone keep to it
  std::string leads_at = {};            // where it is called when it leads; empty: it never does
  std::vector<std::string> lacks = {};  // sources whose files it does not have
  std::vector<std::string> holds = {};  // those whose files lie on disks of its own

  OVERLORD_FIELDS(cores, memory_bytes, memory_enforced, leads_at, lacks, holds)
};

struct Attach {
  uint32_t attempt = 0;    // a higher one fences a lower one
  Digest job;              // of everything that must be the same on every rank
  std::string state;       // encode_resume_state; empty: the stream's start
  AllowedChanges allowed;  // between the job that saved `state` and this one
  std::vector<Rank> ranks;
  uint32_t process = 0;  // for people
  std::string run = {};  // what Welcome told it; empty: it has not been welcomed in this attempt
  HostGift gives = {};   // of a node that follows

  OVERLORD_FIELDS(attempt, job, state, allowed, ranks, process, run, gives)
};

// Where one bucket's constructor listens.
struct ConstructorPlace {
  uint32_t bucket = 0;
  std::string process;
  uint32_t generation = 1;
  std::string wire = {};  // where it is called; empty: on this host

  OVERLORD_FIELDS(bucket, process, generation, wire)
};

// node -> trainer: serving has started.
struct Welcome {
  model::Versions versions;
  std::string state;                     // encode_resume_state of the first step
  std::vector<model::ClientView> views;  // parallel to Attach::ranks
  std::string view_table;                // encode_views: what plans refer to
  std::vector<ConstructorPlace> constructors;
  std::vector<std::string> source_names;
  std::vector<Digest> source_digests;
  std::vector<uint32_t> bad_rows_allowed;  // by source
  std::vector<SectionDigest> sections;
  uint32_t prefetch_steps = 1;
  uint32_t feedback_kept = 1;
  bool metric_driven = false;
  uint32_t host = 0;              // the first rank of this host
  uint64_t hold_limit_bytes = 0;  // views a rank may hold before it gets private copies
  uint64_t copy_limit_bytes = 0;  // of private copies
  std::string run;                // drawn by the node; lies in its journal
  uint32_t term = 1;              // of the planner

  OVERLORD_FIELDS(versions, state, views, view_table, constructors, source_names, source_digests,
                  bad_rows_allowed, sections, prefetch_steps, feedback_kept, metric_driven, host,
                  hold_limit_bytes, copy_limit_bytes, run, term)
};

// To whoever asked for something it cannot have, and to everybody when the job ends badly.
struct Refused {
  Status status;

  OVERLORD_FIELDS(status)
};

// node -> role processes and trainers: which process hosts which roles, in which generation. Sent
// whole; the newest counts. A slot may have several homes: one where it is active, which is sent
// all that is for it, and others where it stands by and hears only what every home needs
// (for_every_home).
struct RoleGeneration {
  Address role;
  uint32_t generation = 1;

  friend bool operator==(const RoleGeneration&, const RoleGeneration&) = default;

  OVERLORD_FIELDS(role, generation)
};
struct ProcessRoles {
  std::string name;
  uint32_t generation = 1;
  std::vector<Address> roles;
  std::string wire = {};              // for those who are on another host
  uint32_t host = 0;                  // the first rank of the host it is on
  std::vector<Address> standby = {};  // active elsewhere
  // Those of `roles` whose generation is not the process's: a slot that moves takes its own along.
  std::vector<RoleGeneration> moved = {};

  OVERLORD_FIELDS(name, generation, roles, wire, host, standby, moved)
};
struct Roster {
  std::vector<ProcessRoles> processes;
  uint32_t term = 1;  // of the planner: it is its generation

  OVERLORD_FIELDS(processes, term)
};

// node -> trainers: feedback that counts now, which states must bring along.
struct FedBack {
  model::StepFeedback feedback;

  OVERLORD_FIELDS(feedback)
};

// role process -> node -> trainers: a row was found bad.
struct RowNoted {
  SampleId id;
  uint64_t row = 0;  // of the source
  std::string reason;
  bool late = false;

  OVERLORD_FIELDS(id, row, reason, late)
};

// role process -> node, every 200 ms: alive, and what its roles do. trainer -> node, every second;
// the node answers with an empty one: it lives.
struct Beat {
  std::string status;     // encoded by the node room
  uint64_t stuck_ms = 0;  // for so long it has had work to do and has come no further

  OVERLORD_FIELDS(status, stuck_ms)
};

struct StatusAsked {};
struct StatusTold {
  std::string status;  // encoded by the node room

  OVERLORD_FIELDS(status)
};

// The descriptor of a segment travels with this.
struct SegmentShared {
  uint64_t segment = 0;
  uint64_t size_bytes = 0;

  OVERLORD_FIELDS(segment, size_bytes)
};
struct SegmentForgotten {
  uint64_t segment = 0;

  OVERLORD_FIELDS(segment)
};
struct LeaseReleased {
  uint32_t number = 0;
  uint64_t generation = 0;

  OVERLORD_FIELDS(number, generation)
};

// trainer -> node: plans from a step on are to be made for another mesh. Answered when every
// process is ready for it, or with the reason why not.
struct TreeAsked {
  uint64_t question = 0;
  std::vector<model::Axis> axes;
  std::optional<StepIndex> step;  // unset: the first that is possible
  std::vector<Rank> ranks = {};   // of the mesh, in its order; empty: all of the job

  OVERLORD_FIELDS(question, axes, step, ranks)
};
struct TreeAnswered {
  uint64_t question = 0;
  std::optional<Status> refused;
  StepIndex first_step = 0;  // from which the mesh holds

  OVERLORD_FIELDS(question, refused, first_step)
};
// node -> role processes, then trainers: the tree of steps from first_step on. Answered with the
// version, once there is nothing of that tree that the process would not know.
struct TreeTold {
  uint32_t version = 0;
  StepIndex first_step = 0;
  std::vector<model::Axis> axes;
  std::string view_table;  // encode_views
  std::vector<Rank> ranks = {};
  // first_step may have been read before, and is read anew; `restart` is where the stream stands
  // before it (encode_stream_state), empty when all of its ranks have begun there long ago.
  bool again = false;
  std::string restart = {};
  Digest content_chain = {}, plan_chain = {};

  OVERLORD_FIELDS(version, first_step, axes, view_table, ranks, again, restart, content_chain,
                  plan_chain)
};
struct TreeTaken {
  uint32_t version = 0;

  OVERLORD_FIELDS(version)
};

// A host without ranks -> lead: it has room for loaders. Groups live there as long as it is
// connected. A node that follows says the same when it attaches.
struct Join {
  Digest job;  // of everything that must be the same on every host
  HostGift gives;
  std::string mark = {};  // one that may lead: a file that it has made where the lead should see it

  OVERLORD_FIELDS(job, gives, mark)
};
// lead -> either: a group is to live there, or not any more.
struct GroupAsked {
  std::string name;
  uint32_t generation = 1;
  uint32_t attempt = 0;
  std::string state;                    // encode_resume_state of the first step
  std::vector<SourceIndex> packs = {};  // whose media constructors decode; the others' loaders do

  OVERLORD_FIELDS(name, generation, attempt, state, packs)
};
struct GroupUnasked {
  std::string name;

  OVERLORD_FIELDS(name)
};
// Its answer, once for every group that was asked for: how it ended.
using GroupGone = model::GroupEnd;
// Whenever they change: those of its groups that would run and get no CPU.
struct GroupsStarve {
  std::vector<std::string> names;

  OVERLORD_FIELDS(names)
};

// A host that is short of memory: it wants one group less than it has, or can take one more than it
// had when it last said so.
struct HostPressed {
  bool pressed = true;

  OVERLORD_FIELDS(pressed)
};

// A trainer, or a host without ranks, that leaves in good order; without it the node takes it for
// dead.
struct Detach {};

using Control = std::variant<Hello, Attach, Welcome, Refused, Roster, FedBack, RowNoted, Beat,
                             StatusAsked, StatusTold, SegmentShared, SegmentForgotten,
                             LeaseReleased, Detach, TreeAsked, TreeAnswered, TreeTold, TreeTaken,
                             Join, GroupAsked, GroupUnasked, GroupGone, GroupsStarve, HostPressed>;

std::string encode_control(const Control& control);
Result<Control> decode_control(std::string_view bytes);

}  // namespace overlord::protocol
