// What the sources of a job cost, written beside their indexes by the node: it alone hears of every
// process that reads or unpacks them.
#include <chrono>
#include <utility>

#include "overlord/node/keeper/job_keeper.h"
#include "overlord/node/status/profile.h"

namespace overlord::node {
namespace {

constexpr int64_t kProfileNs = 30'000'000'000;  // so often it writes while it runs

}  // namespace

// The lead has the loaders; what is unpacked on other hosts belongs to the same sources.
void JobKeeper::carry_out(const keeper::TellUnpacking&) {
  if (!follows_ || !serving_) return;
  EngineStatus told;
  for (const auto& [source, profile] : serving_->profiles.profiles()) {
    if (profile.unpacked_blobs == 0) continue;
    const auto& [ns, in_bytes, out_bytes, peak_bytes] = profile.stages.unpack;
    told.unpacking.push_back(
        {source, {profile.unpacked_blobs, ns, in_bytes, out_bytes}, 0, peak_bytes});
  }
  if (told.unpacking.empty()) return;
  carrier_->send_control("lead", protocol::Beat{encode_engine_status(told)});
}

std::function<void()> JobKeeper::profile_writing() {
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
void JobKeeper::write_profiles_now_and_then() {
  if (!serving_ || follows_) return carry_out(keeper::TellUnpacking{});
  const int64_t now_ns = clock_.now_ns();
  if (now_ns - serving_->profiled_ns < kProfileNs) return;
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    return;
  }
  serving_->profiled_ns = now_ns;
  writing_ = std::async(std::launch::async, profile_writing());
}

void JobKeeper::write_last_profiles() {
  if (!serving_ || follows_) return;
  if (writing_.valid()) writing_.wait();
  profile_writing()();
}

}  // namespace overlord::node
