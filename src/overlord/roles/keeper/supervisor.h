// Supervisor: keeps groups of roles alive. Places them, restarts one that ends under its next
// generation, gives up on one that cannot stay alive, kills one that has gone silent. A value
// without clock or threads: whoever owns it tells it the time and does what it says.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/host/cluster.h"
#include "overlord/protocol/control.h"

namespace overlord::host {

struct SupervisorOptions {
  uint32_t restarts_allowed = 8;       // of one group ...
  uint32_t failed_starts_allowed = 2;  // the same, where it exited before its first word
  int64_t within_ns = 60'000'000'000;  // ... in this time; one more ends the job
  int64_t silence_ns = 3'000'000'000;  // a group that says nothing for so long is taken for hung
  int64_t start_ns = 30'000'000'000;   // the same before its first word: it opens files
};

class Supervisor {
 public:
  Supervisor(std::vector<protocol::ProcessRoles> groups, SupervisorOptions options = {});

  // All groups as they are to be placed now.
  const std::vector<protocol::ProcessRoles>& groups() const { return groups_; }
  // Roles for a group, which is made where there is none of that name.
  void add_roles(const protocol::ProcessRoles& more);
  void remove_role(const protocol::Address& role);
  void placed(const std::string& name, int64_t now_ns);
  void heard(const std::string& name, uint32_t generation, int64_t now_ns);

  struct Decision {
    std::optional<protocol::ProcessRoles> restart;  // place this
    Status give_up;                                 // not ok: the job cannot go on
  };
  // A group has ended. Nothing to do for a generation that is not the newest.
  Decision ended(const GroupEnd& end, int64_t now_ns);
  // Groups to kill, because they have said nothing for too long; each is named once a generation.
  std::vector<std::string> silent(int64_t now_ns);

  uint64_t restarts() const { return restarts_; }

 private:
  struct Watch {
    int64_t heard_ns = 0;
    bool spoken = false;
    bool condemned = false;
    std::deque<int64_t> ends_ns;
    uint32_t failed_starts = 0;  // one after another
  };
  protocol::ProcessRoles* find(const std::string& name);

  std::vector<protocol::ProcessRoles> groups_;
  SupervisorOptions options_;
  std::map<std::string, Watch> watches_;
  uint64_t restarts_ = 0;
};

}  // namespace overlord::host
