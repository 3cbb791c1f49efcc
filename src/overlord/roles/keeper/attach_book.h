// AttachBook: who has attached to a node, and whether they may be served: all expected ranks of one
// attempt that agree on job and state. A later start fences an earlier one, which is refused then.
// Those of an attempt that a keeper before this one has welcomed bring its run along: they may come
// again, and go on without those that do not. A rank whose process was started again brings a state
// of its own, and comes back alone. A value of the keeper's state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/base/status.h"
#include "overlord/protocol/control.h"

namespace overlord::keeper {

// An attempt is numbered by the start of all ranks, times this, and by how often each has opened
// the stream since then: to read it again, or to go on from another state.
inline constexpr uint32_t kOpeningsPerStart = 1 << 16;

class AttachBook {
 public:
  struct Trainer {
    std::vector<Rank> ranks;
    Digest state;          // what it wants to go on from
    uint32_t process = 0;  // for people
    bool fresh = true;     // it has not been welcomed
    uint32_t returns = 0;  // not 0: it has come back alone, as the so many-th of all ranks
  };

  // `attempt`: that those have begun who come again; 0: nobody has.
  AttachBook(std::vector<Rank> expected, Digest job, uint32_t attempt = 0);

  // Why this one may not attach; ok: it may.
  Status refusal(const protocol::Attach& attach) const;
  // Whether this rank is of those that have begun here and has opened the stream once more, as the
  // others will. It has left what they may still read.
  bool opens_again(const protocol::Attach& attach) const;
  // Those whose attempt is over when this one attaches.
  std::vector<std::string> fenced_by(const protocol::Attach& attach) const;
  // Not refused. Serving begins with the last one, if all agree.
  void attach(const std::string& peer, const protocol::Attach& attach);
  void leave(const std::string& peer);
  // Nobody is left and another run may come: its attempts are counted from the start.
  void begin_anew();

  // Everybody is here, and they want to go on from different states.
  Status disagreement() const;
  // The run that is served from now on: a rank whose link broke may come again with it.
  void welcomed(const std::string& run);
  // Those that are missing are gone: the attempt, which began before, goes on without them.
  void go_on_without_missing();

  bool serving() const { return serving_; }
  // What those bring along that were welcomed before; empty: nobody was.
  const std::string& run() const { return run_; }
  uint32_t attempt() const { return attempt_; }
  const std::string& state() const { return state_; }
  const protocol::AllowedChanges& allowed() const { return allowed_; }
  // Of the current attempt, by peer.
  const std::map<std::string, Trainer>& attached() const { return attached_; }
  std::vector<Rank> missing() const;
  // Ranks that have gone while the others are served.
  const std::vector<Rank>& gone() const { return gone_; }

 private:
  void count_returns();

  std::vector<Rank> expected_;
  Digest job_;
  uint32_t attempt_ = 0;
  bool serving_ = false;
  std::string state_;
  std::string run_;
  uint32_t returns_ = 0;
  protocol::AllowedChanges allowed_;
  std::map<std::string, Trainer> attached_;
  std::vector<Rank> gone_;
};

}  // namespace overlord::keeper
