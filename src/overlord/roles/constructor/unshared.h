// Unshared: a constructor whose clients share nothing, for measurements of what sharing is worth.
// Every client gets a constructor of its own behind the group's one address: it asks the loaders
// for itself and lays out microbatches that nobody else sees. To loaders and planner the group
// looks the same: fetches of one step go to a loader one after another, as it answers a step and
// group once, and the planner hears what all clients are done with. Single-threaded, on the
// group's loop.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "overlord/roles/constructor/role.h"

namespace overlord::constructor {

class Unshared {
 public:
  Unshared(ConstructorStart start, ConstructorSeams seams);
  ~Unshared();

  void receive(const protocol::Envelope& envelope);
  const ConstructorProbe& probe() const { return *probe_; }

 private:
  class Gate;  // what one client's constructor sends through
  struct Asked {
    size_t client = 0;
    protocol::Envelope fetch;
  };
  using Key = std::pair<protocol::Address, StepIndex>;

  void send(size_t client, protocol::Envelope envelope);
  void ask(size_t client, StepIndex step, protocol::Envelope fetch);
  void acknowledge(size_t client, protocol::Envelope envelope);
  void receive_payload(const protocol::Envelope& envelope, StepIndex step);
  void receive_restart(const protocol::Envelope& envelope, const protocol::Address& role);

  runtime::Transport<protocol::Envelope>* transport_;
  std::vector<Rank> ranks_;
  std::shared_ptr<ConstructorProbe> probe_;
  std::vector<std::unique_ptr<Gate>> gates_;
  std::vector<std::unique_ptr<Constructor>> clients_;  // parallel to ranks_
  std::map<Key, std::deque<Asked>> asked_;             // the first has been sent
  std::vector<StepIndex> acknowledged_;                // parallel to ranks_
  StepIndex told_ = 0;
};

}  // namespace overlord::constructor
