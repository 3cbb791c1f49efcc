#include "overlord/host/supervisor.h"

namespace overlord::host {

Supervisor::Supervisor(std::vector<protocol::ProcessRoles> groups, SupervisorOptions options)
    : groups_(std::move(groups)), options_(options) {}

protocol::ProcessRoles* Supervisor::find(const std::string& name) {
  for (protocol::ProcessRoles& group : groups_) {
    if (group.name == name) return &group;
  }
  return nullptr;
}

void Supervisor::add_roles(const protocol::ProcessRoles& more) {
  protocol::ProcessRoles* group = find(more.name);
  if (group == nullptr) {
    groups_.push_back(more);
  } else {
    group->roles.insert(group->roles.end(), more.roles.begin(), more.roles.end());
  }
}

void Supervisor::remove_role(const protocol::Address& role) {
  for (protocol::ProcessRoles& group : groups_) std::erase(group.roles, role);
}

void Supervisor::placed(const std::string& name, int64_t now_ns) {
  Watch& watch = watches_[name];
  watch.heard_ns = now_ns;
  watch.spoken = false;
  watch.condemned = false;
}

void Supervisor::heard(const std::string& name, uint32_t generation, int64_t now_ns) {
  const protocol::ProcessRoles* group = find(name);
  if (group == nullptr || group->generation != generation) return;
  Watch& watch = watches_[name];
  watch.heard_ns = now_ns;
  watch.spoken = true;
}

Supervisor::Decision Supervisor::ended(const GroupEnd& end, int64_t now_ns) {
  Decision out;
  protocol::ProcessRoles* group = find(end.name);
  if (group == nullptr || group->generation != end.generation) return out;
  Watch& watch = watches_[end.name];
  watch.failed_starts = end.by_itself && !watch.spoken ? watch.failed_starts + 1 : 0;
  if (watch.failed_starts > options_.failed_starts_allowed) {
    out.give_up =
        Status(Code::kUnavailable, end.name + " cannot start, it ended " +
                                       std::to_string(watch.failed_starts) +
                                       " times before it had begun, last with " + end.how +
                                       (end.last_words.empty() ? "" : ": " + end.last_words));
    return out;
  }
  std::deque<int64_t>& ends = watch.ends_ns;
  ends.push_back(now_ns);
  while (!ends.empty() && now_ns - ends.front() > options_.within_ns) ends.pop_front();
  if (ends.size() > options_.restarts_allowed) {
    out.give_up = Status(Code::kUnavailable,
                         end.name + " has ended " + std::to_string(ends.size()) + " times within " +
                             std::to_string(options_.within_ns / 1'000'000'000) + " s, last with " +
                             end.how + (end.last_words.empty() ? "" : ": " + end.last_words));
    return out;
  }
  ++group->generation;
  ++restarts_;
  out.restart = *group;
  return out;
}

std::vector<std::string> Supervisor::silent(int64_t now_ns) {
  std::vector<std::string> out;
  for (auto& [name, watch] : watches_) {
    const int64_t limit = watch.spoken ? options_.silence_ns : options_.start_ns;
    if (watch.condemned || now_ns - watch.heard_ns <= limit) continue;
    watch.condemned = true;
    out.push_back(name);
  }
  return out;
}

}  // namespace overlord::host
