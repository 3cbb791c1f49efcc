#include "overlord/roles/constructor/unshared.h"

#include <algorithm>

#include "overlord/base/check.h"

namespace overlord::constructor {

class Unshared::Gate final : public runtime::Transport<protocol::Envelope> {
 public:
  Gate(Unshared& owner, size_t client) : owner_(owner), client_(client) {}
  void send(protocol::Envelope envelope) override { owner_.send(client_, std::move(envelope)); }

 private:
  Unshared& owner_;
  const size_t client_;
};

Unshared::Unshared(ConstructorStart start, ConstructorSeams seams)
    : transport_(seams.transport),
      ranks_(start.ranks),
      probe_(std::make_shared<ConstructorProbe>(start.job.sources)),
      acknowledged_(start.ranks.size(), start.first_step),
      told_(start.first_step) {
  OVERLORD_CHECK(start.views.size() == ranks_.size(), "a view for every rank");
  for (size_t i = 0; i < ranks_.size(); ++i) {
    ConstructorStart own = start;
    own.shared = true;
    own.ranks = {start.ranks[i]};
    own.views = {start.views[i]};
    own.job.wants_payload = (start.views[i].fields & model::kPayloadFields) != 0;
    own.job.budget_bytes = start.job.budget_bytes / ranks_.size();
    gates_.push_back(std::make_unique<Gate>(*this, i));
    ConstructorSeams through = seams;
    through.transport = gates_.back().get();
    through.probe = probe_;
    clients_.push_back(std::make_unique<Constructor>(std::move(own), std::move(through)));
  }
}

Unshared::~Unshared() = default;

void Unshared::receive(const protocol::Envelope& envelope) {
  if (envelope.from.kind == protocol::RoleKind::kClient) {
    const auto rank = std::find(ranks_.begin(), ranks_.end(), envelope.from.index);
    if (rank == ranks_.end()) return;
    clients_[static_cast<size_t>(rank - ranks_.begin())]->receive(envelope);
  } else if (const auto* payload = std::get_if<protocol::PayloadPtr>(&envelope.message)) {
    receive_payload(envelope, (*payload)->step);
  } else if (const auto* restart = std::get_if<protocol::PeerRestarted>(&envelope.message)) {
    receive_restart(envelope, restart->role);
  } else {
    for (const auto& client : clients_) client->receive(envelope);
  }
}

// An answer is for the one that asked first; then the next may ask.
void Unshared::receive_payload(const protocol::Envelope& envelope, StepIndex step) {
  const auto found = asked_.find({envelope.from, step});
  if (found == asked_.end()) return;  // late or repeated
  OVERLORD_CHECK(!found->second.empty(), "somebody has asked");
  const size_t client = found->second.front().client;
  clients_[client]->receive(envelope);
  if (clients_[client]->waits_for(step, envelope.from)) return;  // of a loader that is no more
  found->second.pop_front();
  if (found->second.empty()) {
    asked_.erase(found);
    return;
  }
  transport_->send(found->second.front().fetch);
}

// What a dead loader was asked is asked again: by those who know that it is dead, or here.
void Unshared::receive_restart(const protocol::Envelope& envelope, const protocol::Address& role) {
  std::vector<std::pair<Key, std::deque<Asked>>> before;
  for (auto& [key, queue] : asked_) {
    if (key.first == role) before.emplace_back(key, std::move(queue));
  }
  for (const auto& [key, queue] : before) asked_.erase(key);
  for (const auto& client : clients_) client->receive(envelope);
  for (auto& [key, queue] : before) {
    for (Asked& one : queue) {
      if (clients_[one.client]->waits_for(key.second, role)) {
        ask(one.client, key.second, std::move(one.fetch));
      }
    }
  }
}

void Unshared::send(size_t client, protocol::Envelope envelope) {
  if (const auto* fetch = std::get_if<protocol::Fetch>(&envelope.message)) {
    const StepIndex step = fetch->step;
    ask(client, step, std::move(envelope));
  } else if (std::holds_alternative<protocol::Acknowledged>(envelope.message)) {
    acknowledge(client, std::move(envelope));
  } else {
    transport_->send(std::move(envelope));
  }
}

void Unshared::ask(size_t client, StepIndex step, protocol::Envelope fetch) {
  std::deque<Asked>& queue = asked_[{fetch.to, step}];
  const auto same = [client](const Asked& one) { return one.client == client; };
  if (std::any_of(queue.begin(), queue.end(), same)) return;
  queue.push_back({client, fetch});
  if (queue.size() == 1) transport_->send(std::move(fetch));
}

void Unshared::acknowledge(size_t client, protocol::Envelope envelope) {
  auto& told = std::get<protocol::Acknowledged>(envelope.message);
  OVERLORD_CHECK(client < acknowledged_.size(), "a client of this group");
  acknowledged_[client] = std::max(acknowledged_[client], told.acknowledged);
  const StepIndex all = *std::min_element(acknowledged_.begin(), acknowledged_.end());
  if (all <= told_) return;
  told_ = all;
  told.acknowledged = all;
  transport_->send(std::move(envelope));
}

}  // namespace overlord::constructor
