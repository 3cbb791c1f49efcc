// Of the carrier's own files: what it knows of a process that it talks to, and how frames begin.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/transport/carrier.h"

namespace overlord::transport {

// First byte of a frame.
enum CarrierFrame : uint8_t {
  kControl = 0,     // one Control
  kEnvelope = 1,    // lease number, lease generation (0: none), envelope
  kPassedOn = 2,    // what constructors tell clients of a step's plan, once per link
  kPublished = 3,   // step, tree, envelope: the plan for one constructor, behind what it passes on
  kClientPlan = 4,  // what clients need of a step's plan, once per link: a StepReady goes without
  kViews = 5,       // a table of views that plans name, once per link, before the first of them
};

inline constexpr size_t kPlansKept = 64;  // more than any runway; a role asks for no older one

struct Carrier::Counters {
  std::atomic<uint64_t> frames_sent{0}, frames_received{0}, bytes_sent{0}, bytes_received{0},
      inline_bytes{0}, refused{0};
};

struct Carrier::Peer {
  explicit Peer(std::string peer_name, const SegmentMapOptions& options)
      : name(std::move(peer_name)), segments(std::make_shared<SegmentMap>(options)) {}

  const std::string name;
  std::mutex mutex;  // orders what is sent: announcements before what needs them
  LinkPtr link;      // null: not connected
  PeerId id = 0;     // of the link, in the lease book
  bool remote = false;
  std::set<SegmentId> shared;  // our segments that it has
  // Over this link, by step and the tree of its plan: a step may be placed again.
  std::map<StepIndex, uint32_t> plans_sent, client_plans_sent;
  std::set<uint32_t> trees_sent;  // whose views were
  std::deque<protocol::Envelope> waiting OVERLORD_GUARDED_BY(mutex);
  // Of the loop's thread alone.
  std::shared_ptr<SegmentMap> segments;     // its segments that we have
  std::map<StepIndex, uint32_t> passed_on;  // the tree of the plan
  std::map<StepIndex, model::PlanPtr> client_plans;
  // Envelopes of another host, where a large frame may be overtaken by those behind it.
  std::map<std::pair<StepIndex, uint32_t>, std::vector<std::string>> told_early;
};

}  // namespace overlord::transport
