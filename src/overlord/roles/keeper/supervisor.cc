#include "overlord/roles/keeper/supervisor.h"

#include <algorithm>

#include "overlord/base/check.h"

namespace overlord::keeper {

Supervisor::Supervisor(std::vector<protocol::ProcessRoles> groups, SupervisorOptions options)
    : groups_(std::move(groups)), options_(options) {}

const protocol::ProcessRoles* Supervisor::find(const std::string& name) const {
  const auto named = [&](const protocol::ProcessRoles& group) { return group.name == name; };
  const auto found = std::find_if(groups_.begin(), groups_.end(), named);
  return found == groups_.end() ? nullptr : &*found;
}

protocol::ProcessRoles* Supervisor::group_of(const std::string& name) {
  for (protocol::ProcessRoles& group : groups_) {
    if (group.name == name) return &group;
  }
  return nullptr;
}

void Supervisor::add_roles(const protocol::ProcessRoles& more) {
  for (const protocol::ProcessRoles& group : groups_) {
    for (const protocol::Address& role : more.roles) {
      OVERLORD_CHECK(std::find(group.roles.begin(), group.roles.end(), role) == group.roles.end(),
                     "a role lives in one group");
    }
  }
  protocol::ProcessRoles* group = group_of(more.name);
  if (group == nullptr) {
    groups_.push_back(more);
  } else {
    group->roles.insert(group->roles.end(), more.roles.begin(), more.roles.end());
  }
}

void Supervisor::remove_role(const protocol::Address& role) {
  for (protocol::ProcessRoles& group : groups_) {
    std::erase(group.roles, role);
    std::erase_if(group.moved, [&](const auto& one) { return one.role == role; });
  }
}

void Supervisor::promote(const Promotion& promotion) {
  keeper::promote(promotion, &groups_);
  ++promotions_;
}

void Supervisor::condemn(const std::string& name) {
  OVERLORD_CHECK(find(name) != nullptr, "a group of this job is condemned");
  Watch& watch = watches_[name];
  watch.condemned = true;
  if (watch.stuck_ms > options_.stuck_ms) options_.stuck_ms *= 2;
}

void Supervisor::move(const std::string& name) {
  OVERLORD_CHECK(find(name) != nullptr, "a group of this job is moved");
  watches_[name].moves = true;
}

bool Supervisor::condemned(const std::string& name) const {
  const auto found = watches_.find(name);
  return found != watches_.end() && found->second.condemned;
}

void Supervisor::adopt(const std::string& name, uint32_t generation) {
  protocol::ProcessRoles* group = group_of(name);
  OVERLORD_CHECK(group != nullptr && generation > 0, "a group of this job is adopted");
  keeper::adopt(groups_, generation, group);
}

void Supervisor::placed(const std::string& name, int64_t now_ns) {
  OVERLORD_CHECK(find(name) != nullptr, "a group of this job is placed");
  Watch& watch = watches_[name];
  watch.heard_ns = now_ns;
  watch.spoken = false;
  watch.condemned = false;
  watch.moves = false;
  watch.stuck_ms = 0;
}

void Supervisor::heard(const GroupWord& word, int64_t now_ns) {
  const protocol::ProcessRoles* group = find(word.name);
  if (group == nullptr || group->generation != word.generation) return;
  Watch& watch = watches_[word.name];
  watch.stuck_ms = word.stuck_ms;
  watch.heard_ns = now_ns;
  watch.spoken = true;
}

Supervisor::Watch Supervisor::after(const Watch& before, const runtime::GroupEnd& end,
                                    int64_t now_ns, int64_t within_ns) {
  Watch out = before;
  if (before.moves || end.host_left) return out;
  out.failed_starts = end.by_itself && !before.spoken ? before.failed_starts + 1 : 0;
  out.ends_ns.push_back(now_ns);
  while (now_ns - out.ends_ns.front() > within_ns) out.ends_ns.pop_front();
  return out;
}

Supervisor::Decision Supervisor::judge(const runtime::GroupEnd& end, int64_t now_ns) const {
  Decision out;
  const protocol::ProcessRoles* group = find(end.name);
  if (group == nullptr || group->generation != end.generation) return out;
  const auto known = watches_.find(end.name);
  const Watch watch =
      after(known == watches_.end() ? Watch{} : known->second, end, now_ns, options_.within_ns);
  const std::string last =
      "last with " + end.how + (end.last_words.empty() ? "" : ": " + end.last_words);
  if (watch.failed_starts > options_.failed_starts_allowed) {
    out.give_up = Status(Code::kUnavailable, end.name + " cannot start, it ended " +
                                                 std::to_string(watch.failed_starts) +
                                                 " times before it had begun, " + last);
  } else if (watch.ends_ns.size() > options_.restarts_allowed) {
    out.give_up =
        Status(Code::kUnavailable,
               end.name + " has ended " + std::to_string(watch.ends_ns.size()) + " times within " +
                   std::to_string(options_.within_ns / 1'000'000'000) + " s, " + last);
  } else {
    out.restart = *group;
    start_again(&*out.restart);
  }
  return out;
}

Supervisor::Decision Supervisor::ended(const runtime::GroupEnd& end, int64_t now_ns) {
  Decision out = judge(end, now_ns);
  if (!out.restart) return out;
  Watch& watch = watches_[end.name];
  watch = after(watch, end, now_ns, options_.within_ns);
  OVERLORD_CHECK(out.restart->generation > end.generation, "a group comes again as a newer one");
  start_again(group_of(end.name));
  ++restarts_;
  return out;
}

std::vector<std::string> Supervisor::silent(int64_t now_ns,
                                            const std::set<std::string>& starved) const {
  std::vector<std::string> out;
  for (const auto& [name, watch] : watches_) {
    int64_t limit = watch.spoken ? options_.silence_ns : options_.start_ns;
    if (starved.contains(name)) limit = std::max(limit, options_.starved_ns);
    if (watch.condemned || now_ns - watch.heard_ns <= limit) continue;
    out.push_back(name);
  }
  return out;
}

std::vector<std::string> Supervisor::stuck() const {
  std::vector<std::string> out;
  for (const auto& [name, watch] : watches_) {
    if (!watch.condemned && watch.stuck_ms > options_.stuck_ms) out.push_back(name);
  }
  return out;
}

}  // namespace overlord::keeper
