#include "overlord/node/status/profile.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

namespace overlord::node {
namespace {

constexpr int kFormat = 4;
// A look at a single step does not replace what a long run has measured.
constexpr uint64_t kMuchLess = 10;

void add_loader(const LoaderStatus& loader, SourceProfile* profile) {
  const loader::LoaderCounts<Plain>& counts = loader.counts;
  add_counts({.loaders = 1,
              .rows_posted = counts.rows_posted,
              .documents = counts.documents,
              .tokens = counts.tokens,
              .blocks_read = counts.blocks_read,
              .cache_hits = counts.cache_hits,
              .bad_rows = counts.bad_rows,
              .media_blobs = counts.media_blobs,
              .file_state_bytes = counts.file_state_bytes,
              .stages = {.read = {counts.read_wait_ns, counts.read_bytes, counts.read_bytes,
                                  loader.reading_peak_bytes},
                         .decode = {counts.decode_ns, counts.decode_in_bytes,
                                    counts.decode_out_bytes, loader.buffer_peak_bytes},
                         .python = {.ns = loader.python_ns},
                         .tokenise = {counts.tokenise_ns, counts.tokenise_in_bytes,
                                      counts.tokenise_out_bytes},
                         .media = {counts.media_ns, counts.media_in_bytes, counts.media_out_bytes},
                         .send = {counts.send_ns, counts.sent_bytes, counts.sent_bytes,
                                  loader.in_flight_peak_bytes}}},
             profile);
}

// What an earlier life of the same roles did: its work counts, its memory was given back.
template <Listed T>
void add_past(const T& past, T* profile) {
  for_both_fields(past, *profile, [](std::string_view name, const auto& from, auto& to) {
    if constexpr (Listed<std::remove_reference_t<decltype(to)>>) {
      add_past(from, &to);
    } else if (name == "loaders" || name == "file_state_bytes" || name == "peak_bytes") {
      to = std::max(to, from);
    } else {
      to += from;
    }
  });
}

// Its fields, without the braces around them.
template <Listed T>
void write_json(const T& value, std::ostream& out) {
  const char* gap = "";
  for_each_field(value, [&](std::string_view name, const auto& field) {
    out << std::exchange(gap, ", ") << '"' << name << "\": ";
    if constexpr (Listed<std::remove_reference_t<decltype(field)>>) {
      out << '{';
      write_json(field, out);
      out << '}';
    } else {
      out << field;
    }
  });
}

std::string json_of(const std::string& source, const SourceProfile& profile,
                    const ProfiledRun& run) {
  std::ostringstream out;
  out << "{\"format\": " << kFormat << ", \"source\": \"" << source << "\", \"engine\": \""
      << run.engine << "\", \"config\": \"" << run.config
      << "\", \"elapsed_ns\": " << run.elapsed_ns << ", ";
  write_json(profile, out);
  out << "}\n";
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
    if (loader.standby) continue;  // what it reads is read by another as well
    add_loader(loader, &(*profiles)[loader.source]);
    uint64_t& peak = workers[loader.source];
    peak = std::max(peak, loader.worker_peak_bytes);
  }
  for (const auto& [source, peak] : workers) (*profiles)[source].stages.tokenise.peak_bytes += peak;
  for (const UnpackStatus& one : status.unpacking) {
    const auto& [blobs, unpack_ns, in_bytes, out_bytes] = one.counts;
    add_counts({.unpacked_blobs = blobs,
                .stages = {.unpack = {unpack_ns, in_bytes, out_bytes, one.peak_bytes}}},
               &(*profiles)[one.source]);
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
