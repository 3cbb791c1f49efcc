#include "overlord/node/profile.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>

namespace overlord::node {
namespace {

constexpr int kFormat = 3;
// A look at a single step does not replace what a long run has measured.
constexpr uint64_t kMuchLess = 10;

void add_loader(const LoaderStatus& loader, SourceProfile* profile) {
  ++profile->loaders;
  profile->rows_posted += loader.rows_posted;
  profile->documents += loader.documents;
  profile->blocks_read += loader.blocks_read;
  profile->cache_hits += loader.cache_hits;
  profile->bad_rows += loader.bad_rows;
  profile->media_blobs += loader.media_blobs;
  profile->file_state_bytes += loader.file_state_bytes;
  const auto add = [](StageProfile* stage, uint64_t ns, uint64_t in, uint64_t out, uint64_t peak) {
    stage->ns += ns;
    stage->in_bytes += in;
    stage->out_bytes += out;
    stage->peak_bytes += peak;
  };
  add(&profile->read, loader.read_wait_ns, loader.read_bytes, loader.read_bytes,
      loader.reading_peak_bytes);
  add(&profile->decode, loader.decode_ns, loader.decode_in_bytes, loader.decode_out_bytes,
      loader.buffer_peak_bytes);
  add(&profile->python, loader.python_ns, 0, 0, 0);
  add(&profile->tokenise, loader.tokenise_ns, loader.tokenise_in_bytes, loader.tokenise_out_bytes,
      0);
  add(&profile->media, loader.media_ns, loader.media_in_bytes, loader.media_out_bytes, 0);
  add(&profile->send, 0, loader.sent_bytes, loader.sent_bytes, loader.in_flight_peak_bytes);
}

// The stages of a profile with their names, in the order in which rows pass them.
template <typename Profile>
auto stages_of(Profile& profile) {
  using Stage = std::conditional_t<std::is_const_v<Profile>, const StageProfile, StageProfile>;
  return std::vector<std::pair<std::string_view, Stage*>>{
      {"read", &profile.read},         {"decode", &profile.decode}, {"python", &profile.python},
      {"tokenise", &profile.tokenise}, {"media", &profile.media},   {"send", &profile.send},
      {"unpack", &profile.unpack}};
}

// What an earlier life of the same roles did: its work counts, its memory was given back.
void add_past(const SourceProfile& past, SourceProfile* profile) {
  using Count = uint64_t SourceProfile::*;
  for (const Count count :
       {&SourceProfile::rows_posted, &SourceProfile::documents, &SourceProfile::blocks_read,
        &SourceProfile::cache_hits, &SourceProfile::bad_rows, &SourceProfile::media_blobs,
        &SourceProfile::unpacked_blobs}) {
    profile->*count += past.*count;
  }
  profile->loaders = std::max(profile->loaders, past.loaders);
  profile->file_state_bytes = std::max(profile->file_state_bytes, past.file_state_bytes);
  const auto before = stages_of(past);
  const auto after = stages_of(*profile);
  for (size_t i = 0; i < after.size(); ++i) {
    const StageProfile& from = *before[i].second;
    StageProfile* to = after[i].second;
    to->ns += from.ns;
    to->in_bytes += from.in_bytes;
    to->out_bytes += from.out_bytes;
    to->peak_bytes = std::max(to->peak_bytes, from.peak_bytes);
  }
}

std::string json_of(const std::string& source, const SourceProfile& profile,
                    const ProfiledRun& run) {
  std::ostringstream out;
  out << "{\"format\": " << kFormat << ", \"source\": \"" << source << "\", \"engine\": \""
      << run.engine << "\", \"config\": \"" << run.config
      << "\", \"elapsed_ns\": " << run.elapsed_ns << ", \"loaders\": " << profile.loaders
      << ", \"rows_posted\": " << profile.rows_posted << ", \"documents\": " << profile.documents
      << ", \"blocks_read\": " << profile.blocks_read << ", \"cache_hits\": " << profile.cache_hits
      << ", \"bad_rows\": " << profile.bad_rows << ", \"media_blobs\": " << profile.media_blobs
      << ", \"unpacked_blobs\": " << profile.unpacked_blobs
      << ", \"file_state_bytes\": " << profile.file_state_bytes << ", \"stages\": {";
  const char* gap = "";
  for (const auto& [name, stage] : stages_of(profile)) {
    out << gap << '"' << name << "\": {\"ns\": " << stage->ns
        << ", \"in_bytes\": " << stage->in_bytes << ", \"out_bytes\": " << stage->out_bytes
        << ", \"peak_bytes\": " << stage->peak_bytes << '}';
    gap = ", ";
  }
  out << "}}\n";
  return out.str();
}

// What follows `name` in a file that we have written.
std::string_view after(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + name.size());
}

bool tells_much_more(const std::string& path, const SourceProfile& profile,
                     const ProfiledRun& run) {
  std::ifstream in(path);
  std::string text;
  if (!std::getline(in, text)) return false;
  const std::string same = "\"config\": \"" + run.config + "\"";
  if (!text.starts_with("{\"format\": " + std::to_string(kFormat) + ",") ||
      text.find(same) == std::string::npos) {
    return false;
  }
  const std::string_view number = after(text, "\"documents\": ");
  uint64_t documents = 0;
  std::from_chars(number.data(), number.data() + number.size(), documents);
  return documents / kMuchLess > profile.documents;
}

}  // namespace

void add_costs(const EngineStatus& status, SourceProfiles* profiles) {
  std::map<std::string, uint64_t> workers;  // of a source; its slots in one process share them
  for (const LoaderStatus& loader : status.loaders) {
    add_loader(loader, &(*profiles)[loader.source]);
    uint64_t& peak = workers[loader.source];
    peak = std::max(peak, loader.worker_peak_bytes);
  }
  for (const auto& [source, peak] : workers) (*profiles)[source].tokenise.peak_bytes += peak;
  for (const UnpackStatus& one : status.unpacking) {
    SourceProfile& profile = (*profiles)[one.source];
    profile.unpacked_blobs += one.blobs;
    profile.unpack.ns += one.unpack_ns;
    profile.unpack.in_bytes += one.in_bytes;
    profile.unpack.out_bytes += one.out_bytes;
    profile.unpack.peak_bytes += one.peak_bytes;
  }
}

void ProfileBook::ended(const std::string& process) {
  const auto found = told_.extract(process);
  if (!found) return;
  SourceProfiles last;
  add_costs(found.mapped(), &last);
  for (const auto& [source, profile] : last) add_past(profile, &past_[source]);
}

SourceProfiles ProfileBook::profiles() const {
  SourceProfiles out;
  for (const auto& [process, status] : told_) add_costs(status, &out);
  for (const auto& [source, profile] : past_) add_past(profile, &out[source]);
  return out;
}

std::string profile_path(const std::string& index_path, const std::string& source) {
  const size_t mark = source.find('/');
  const std::string own = mark == std::string::npos ? "" : "." + source.substr(mark + 1);
  return index_path + own + ".profile";
}

void write_profile(const std::string& path, const std::string& source, const SourceProfile& profile,
                   const ProfiledRun& run) {
  if (profile.blocks_read == 0) return;  // nothing was measured: keep what an earlier run found
  if (tells_much_more(path, profile, run)) return;
  const std::string temporary = path + ".new." + std::to_string(getpid());
  bool written = false;
  {
    std::ofstream out(temporary);
    if (!out) return;
    out << json_of(source, profile, run);
    out.flush();
    written = static_cast<bool>(out);
  }
  if (!written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
  }
}

}  // namespace overlord::node
