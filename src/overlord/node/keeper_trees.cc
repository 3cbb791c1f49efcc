// A mesh that changes while a job runs: who asks, where the new tree's constructors live, and how
// everybody comes to know it.
#include "overlord/node/job_keeper.h"

namespace overlord::node {

std::unique_ptr<TreeRollout> Keeper::tree_rollout() {
  TreeRollout::Wiring wiring;
  wiring.send = [this](const std::string& peer, const protocol::Control& control) {
    carrier_->send_control(peer, control);
  };
  wiring.processes = [this] {
    std::vector<std::string> names;
    for (const auto& process : serving_->supervisor->groups()) names.push_back(process.name);
    return names;
  };
  wiring.trainers = [this] {
    std::vector<std::string> names;
    for (const auto& [connection, peer] : peers_) names.push_back(peer);
    return names;
  };
  wiring.place = [this](const planner::TreeChanged& change) { place_tree(change); };
  return std::make_unique<TreeRollout>(std::move(wiring));
}

// Its constructors live in the processes that there are, and in new ones where the config wants
// more.
void Keeper::place_tree(const planner::TreeChanged& change) {
  for (protocol::ProcessRoles& more : node::place_tree(job_->spec, *change.tree.views, placing())) {
    more.generation = generation_base_;
    const size_t before = serving_->supervisor->groups().size();
    serving_->supervisor->add_roles(more);
    if (serving_->supervisor->groups().size() == before) continue;
    serving_->supervisor->placed(more.name, clock_.now_ns());
    if (Status status = serving_->cluster->place(more); !status.ok()) return give_up(status);
  }
  roster_changed();
}

void Keeper::on_tree_asked(const std::string& peer, const protocol::TreeAsked& asked) {
  const auto answer = [this, peer, question = asked.question](const Result<StepIndex>& first) {
    protocol::TreeAnswered out{question, std::nullopt, 0};
    if (first.ok()) {
      out.first_step = *first;
    } else {
      out.refused = first.status();
    }
    endpoint_->post([this, peer, out] { carrier_->send_control(peer, out); });
  };
  const Result<model::Mesh> mesh = model::Mesh::make(asked.axes);
  if (!mesh.ok()) return answer(mesh.status());
  if (!serving_ || arguments_.wire.several_hosts()) {
    return answer(invalid_argument(
        "mesh: it is changed while the job runs where one host has all ranks; restart from a "
        "state, which resumes on any mesh"));
  }
  serving_->planner->host().rebuild_tree({*mesh, asked.step}, answer);
}

}  // namespace overlord::node
