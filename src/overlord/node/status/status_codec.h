// What a node knows of its processes and ranks, as bytes: told by role processes with their beats,
// by trainers of their own ranks, and by the node to whoever asks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/node/engine/engine.h"
#include "overlord/plan/partition/decode_place.h"
#include "overlord/protocol/control.h"

namespace overlord::node {

struct ProcessStatus {
  std::string name;
  uint32_t process = 0;  // pid
  uint32_t generation = 1;
  uint32_t restarts = 0;  // within the attempt
  bool connected = false;
  uint64_t roles = 0;
  std::string host = {};  // another than the node's, by the name it joined with
  std::string why = {};   // it lives there; empty: it may live nowhere else

  OVERLORD_FIELDS(name, process, generation, restarts, connected, roles, host, why)
};

// A host that loaders may live on, or that was lost with those that did.
struct HostStatus {
  std::string name;  // empty: the node's own
  bool ranks = false;
  protocol::HostGift gives;
  uint64_t groups = 0;  // of loaders, that live there
  bool lost = false;

  OVERLORD_FIELDS(name, ranks, gives, groups, lost)
};

struct NodeStatus {
  EngineStatus engine;  // all roles and ranks of the node
  std::string job;
  std::string stream;
  uint32_t attempt = 0;
  bool serving = false;
  uint64_t restarts = 0;
  uint32_t process = 0;
  std::vector<ProcessStatus> processes;
  std::vector<Rank> missing;  // not attached yet
  std::vector<Rank> gone;     // attached once, dead now
  std::string waits;          // what everybody waits for; empty: nothing
  uint32_t term = 0;          // of the planner; 0: it is elsewhere, or there is none yet
  uint32_t recoveries = 0;    // nodes that have died before this one
  std::string journal;        // the folder of the planner's; empty: in memory
  // Slots that went on in another process; of slots that are to have shadows those with a living
  // one and those without; what shadows hold.
  uint64_t promotions = 0, shadowed = 0, unprotected = 0, shadow_bytes = 0;
  std::vector<HostStatus> hosts;  // where loaders may live, the node's own first; of a lead
  std::vector<plan::DecodeChoice> decoding;  // of sources with media

  OVERLORD_FIELDS(engine, job, stream, attempt, serving, restarts, process, processes, missing,
                  gone, waits, term, recoveries, journal, promotions, shadowed, unprotected,
                  shadow_bytes, hosts, decoding)
};

std::string encode_engine_status(const EngineStatus& status);
Result<EngineStatus> decode_engine_status(std::string_view bytes);
std::string encode_node_status(const NodeStatus& status);
Result<NodeStatus> decode_node_status(std::string_view bytes);

// A group has two constructors while its mesh changes, and is one line.
void add_constructor(const ConstructorStatus& part, std::vector<ConstructorStatus>* whole);
// Adds what another process told of its roles.
void merge_status(const EngineStatus& part, EngineStatus* whole);

}  // namespace overlord::node
