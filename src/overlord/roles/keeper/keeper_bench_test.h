// A keeper whose reactions are looked at. Test only.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "overlord/roles/keeper/logic.h"

namespace overlord::keeper {

// A process of loaders, one of constructors.
inline KeeperJob two_ranks() {
  KeeperJob job;
  job.job = digest_of("job");
  job.ranks = job.local = {0, 1};
  job.groups = {{"loaders-0", 1, {protocol::loader_address(0, 0)}},
                {"constructors-0", 1, {protocol::constructor_address(0)}}};
  auto views = std::make_shared<model::ViewTable>();
  views->by_rank.resize(2);
  job.views = views;
  return job;
}

// A keeper without a world: what it wants done is looked at.
struct KeeperBench {
  explicit KeeperBench(KeeperJob of) : job(std::move(of)), state(job) {}

  const std::vector<Effect>& on(const Input& input, int64_t now_ns = 0) {
    return effects = react(job, state, input, now_ns);
  }
  const std::vector<Effect>& hears(const std::string& peer, protocol::Control control) {
    return on(Heard{peer, std::move(control)});
  }
  const std::vector<Effect>& attach(Rank rank, uint32_t attempt = 1, std::string from = "") {
    protocol::Attach attach;
    attach.attempt = attempt;
    attach.job = job.job;
    attach.ranks = {rank};
    attach.state = std::move(from);
    return hears("rank-" + std::to_string(rank) + "." + std::to_string(attempt), attach);
  }
  const std::vector<Effect>& connect(const std::string& name, uint32_t generation = 1) {
    protocol::Hello hello;
    hello.name = name;
    hello.generation = generation;
    return on(Connected{hello});
  }
  template <typename Wanted>
  std::vector<Wanted> all() const {
    std::vector<Wanted> out;
    for (const Effect& effect : effects) {
      if (const auto* one = std::get_if<Wanted>(&effect)) out.push_back(*one);
    }
    return out;
  }
  // Who is told this kind of message, in order.
  template <typename Wanted>
  std::vector<std::string> told() const {
    std::vector<std::string> out;
    for (const Tell& tell : all<Tell>()) {
      if (std::holds_alternative<Wanted>(tell.control)) out.push_back(tell.peer);
    }
    return out;
  }

  KeeperJob job;
  KeeperState state;
  std::vector<Effect> effects;
};

}  // namespace overlord::keeper
