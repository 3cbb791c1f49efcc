// What the sources of a job cost, written beside their indexes by the node: it alone hears of every
// process that reads or unpacks them.
#include <chrono>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/node/job_keeper.h"
#include "overlord/node/profile.h"

namespace overlord::node {
namespace {

constexpr int64_t kLastWordsNs = 1'000'000'000;  // so long the node waits for them
constexpr int64_t kProfileNs = 30'000'000'000;   // so often it writes while it runs

}  // namespace

// Processes tell of their work once a second and are killed at the end: before that they are asked
// once more, for a run may have lasted less.
void Keeper::hear_last_words(std::function<void()> then) {
  OVERLORD_CHECK(!parting_, "the last rank leaves once");
  parting_ = std::move(then);
  unheard_.clear();
  if (serving_ && !failed_) {
    for (const protocol::ProcessRoles& process : serving_->supervisor->groups()) {
      if (!carrier_->connected(process.name)) continue;
      unheard_.insert(process.name);
      carrier_->send_control(process.name, protocol::StatusAsked{});
    }
  }
  if (unheard_.empty()) return part();
  endpoint_->post_after(kLastWordsNs, [this, parting = ++partings_] {
    if (parting == partings_) part();
  });
}

void Keeper::on_last_words(const std::string& peer, const protocol::StatusTold& told) {
  if (!unheard_.contains(peer)) return;
  Result<EngineStatus> status = decode_engine_status(told.status);
  if (status.ok() && serving_) serving_->profiles.told(peer, std::move(*status));
  unheard_.erase(peer);
  if (unheard_.empty()) part();
}

void Keeper::part() {
  if (!parting_) return;
  unheard_.clear();
  tell_lead_of_unpacking();
  const std::function<void()> then = std::exchange(parting_, nullptr);
  then();
}

// The lead has the loaders; what is unpacked on other hosts belongs to the same sources.
void Keeper::tell_lead_of_unpacking() {
  if (!follows_ || !serving_) return;
  EngineStatus told;
  for (const auto& [source, profile] : serving_->profiles.profiles()) {
    if (profile.unpacked_blobs == 0) continue;
    const StageProfile& unpack = profile.unpack;
    told.unpacking.push_back({source, profile.unpacked_blobs, unpack.ns, unpack.in_bytes,
                              unpack.out_bytes, 0, unpack.peak_bytes});
  }
  if (told.unpacking.empty()) return;
  carrier_->send_control("lead", protocol::Beat{encode_engine_status(told)});
}

std::function<void()> Keeper::profile_writing() {
  struct Wanted {
    std::string path, source;
    SourceProfile profile;
  };
  std::vector<Wanted> wanted;
  SourceProfiles profiles = serving_->profiles.profiles();
  for (size_t s = 0; s < job_->spec.sources.size() && s < file_.index_paths.size(); ++s) {
    const std::string& name = job_->spec.sources[s].name;
    wanted.push_back({profile_path(file_.index_paths[s], name), name, profiles[name]});
  }
  const ProfiledRun run{"processes", job_->config.hex(), clock_.now_ns() - serving_->begin_ns};
  return [wanted = std::move(wanted), run] {
    for (const Wanted& one : wanted) write_profile(one.path, one.source, one.profile, run);
  };
}

// Files may lie on a disk that answers slowly, and the loop has others to serve.
void Keeper::write_profiles_now_and_then() {
  if (!serving_ || follows_) return tell_lead_of_unpacking();
  const int64_t now_ns = clock_.now_ns();
  if (now_ns - serving_->profiled_ns < kProfileNs) return;
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    return;
  }
  serving_->profiled_ns = now_ns;
  writing_ = std::async(std::launch::async, profile_writing());
}

void Keeper::write_last_profiles() {
  if (!serving_ || follows_) return;
  if (writing_.valid()) writing_.wait();
  profile_writing()();
}

}  // namespace overlord::node
