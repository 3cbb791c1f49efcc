// AttachBook: who has attached to a node, and whether they may be served: all expected ranks of one
// attempt that agree on job and state. A later attempt fences an earlier one; an earlier one is
// refused. Pure: the node does what it says.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/base/status.h"
#include "overlord/protocol/control.h"

namespace overlord::node {

class AttachBook {
 public:
  using Connection = uint64_t;

  AttachBook(std::vector<Rank> expected, Digest job);

  struct Outcome {
    Status refused;                  // not ok: tell this connection and forget it
    std::vector<Connection> fenced;  // of an earlier attempt: drop them
    bool serve = false;              // everybody is here: start
    Status disagreement;             // not ok: everybody is here and they differ; tell all
  };
  Outcome attach(Connection connection, const protocol::Attach& attach);
  // The connection is gone. True when nobody is left.
  bool leave(Connection connection);

  // Nobody is left and another run may come: its attempts are counted from the start.
  void begin_anew();

  bool serving() const { return serving_; }
  uint32_t attempt() const { return attempt_; }
  const std::string& state() const { return state_; }
  const protocol::AllowedChanges& allowed() const { return allowed_; }
  // Connections of the current attempt, with their ranks.
  const std::map<Connection, std::vector<Rank>>& attached() const { return attached_; }
  std::vector<Rank> missing() const;
  // "rank 3 (process 4711)" of every rank that has gone while the others are served.
  const std::vector<Rank>& gone() const { return gone_; }

 private:
  std::vector<Rank> expected_;
  Digest job_;
  uint32_t attempt_ = 0;
  bool serving_ = false;
  std::string state_;
  protocol::AllowedChanges allowed_;
  std::map<Connection, std::vector<Rank>> attached_;
  std::map<Connection, Digest> states_;  // what each wants to go on from
  std::vector<Rank> gone_;
};

}  // namespace overlord::node
