// Supervisor: which groups of roles are to live. One that ends is restarted under its next
// generation, one that cannot stay alive ends the job, one that has gone silent is killed. A value
// of the keeper's state, without clock or threads: whoever owns it tells it the time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/protocol/control.h"
#include "overlord/roles/keeper/shadows.h"
#include "overlord/runtime/cluster.h"

namespace overlord::keeper {

struct SupervisorOptions {
  uint32_t restarts_allowed = 8;        // of one group ...
  uint32_t failed_starts_allowed = 2;   // the same, where it exited before its first word
  int64_t within_ns = 60'000'000'000;   // ... in this time; one more ends the job
  int64_t silence_ns = 2'500'000'000;   // a group that says nothing for so long is taken for hung
  int64_t start_ns = 30'000'000'000;    // the same before its first word: it opens files
  int64_t starved_ns = 30'000'000'000;  // the same where it gets no CPU: a busy machine is no hang
  // A group that comes no further for so long is taken for hung where others can take its work
  // over; then twice as long, for what is slow everywhere must come to its end some time.
  uint64_t stuck_ms = 10'000;
};

struct GroupWord {
  std::string name;
  uint32_t generation = 1;
  uint64_t stuck_ms = 0;  // it comes no further
};

class Supervisor {
 public:
  explicit Supervisor(std::vector<protocol::ProcessRoles> groups, SupervisorOptions options = {});

  // All groups as they are to be placed now.
  const std::vector<protocol::ProcessRoles>& groups() const { return groups_; }
  const protocol::ProcessRoles* find(const std::string& name) const;
  // Roles for a group, which is made where there is none of that name.
  void add_roles(const protocol::ProcessRoles& more);
  void remove_role(const protocol::Address& role);
  // A slot goes on in another group.
  void promote(const Promotion& promotion);
  // It lives already, placed by a keeper before this one.
  void adopt(const std::string& name, uint32_t generation);
  void placed(const std::string& name, int64_t now_ns);
  void heard(const GroupWord& word, int64_t now_ns);

  struct Decision {
    std::optional<protocol::ProcessRoles> restart;  // place this
    Status give_up;                                 // not ok: the job cannot go on
  };
  // What follows from the end of a group; nothing, for a generation that is not the newest.
  Decision judge(const runtime::GroupEnd& end, int64_t now_ns) const;
  // The same, and it is done.
  Decision ended(const runtime::GroupEnd& end, int64_t now_ns);
  // Groups to kill, because they have said nothing for too long.
  std::vector<std::string> silent(int64_t now_ns, const std::set<std::string>& starved = {}) const;
  // Groups that speak, and that should hand their work over if somebody can take it.
  std::vector<std::string> stuck() const;
  // It is about to end because it is wanted elsewhere: no fault of its own.
  void move(const std::string& name);
  // It will be killed, and is neither in this generation any more.
  void condemn(const std::string& name);
  bool condemned(const std::string& name) const;

  uint64_t restarts() const { return restarts_; }
  uint64_t promotions() const { return promotions_; }

 private:
  struct Watch {
    int64_t heard_ns = 0;
    bool spoken = false;
    bool condemned = false;
    bool moves = false;
    uint64_t stuck_ms = 0;
    std::deque<int64_t> ends_ns;
    uint32_t failed_starts = 0;  // one after another
  };
  protocol::ProcessRoles* group_of(const std::string& name);
  static Watch after(const Watch& before, const runtime::GroupEnd& end, int64_t now_ns,
                     int64_t within_ns);

  std::vector<protocol::ProcessRoles> groups_;
  SupervisorOptions options_;
  std::map<std::string, Watch> watches_;
  uint64_t restarts_ = 0, promotions_ = 0;
};

}  // namespace overlord::keeper
