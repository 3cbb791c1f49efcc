#include "overlord/node/status/run_notes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "overlord/transport/socket_directory.h"

namespace overlord::node {
namespace {

constexpr const char* kWaits = "waits";           // run, job, ranks that are here
constexpr const char* kVerdict = "disagreement";  // left by the node that found it
constexpr int64_t kCertainNs = 2'000'000'000;     // ranks may be about to come to both
constexpr size_t kMostBytes = 1 << 20;

std::string read_note(const transport::SocketDirectory& directory, const char* name) {
  const runtime::Descriptor file(
      openat(directory.descriptor(), name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  std::string text;
  char data[4096];
  while (file.valid() && text.size() < kMostBytes) {
    const ssize_t got = read(file.get(), data, sizeof(data));
    if (got <= 0) break;
    text.append(data, static_cast<size_t>(got));
  }
  return text;
}

// Whole or not at all.
void leave_note(const transport::SocketDirectory& directory, const char* name,
                const std::string& text) {
  const std::string fresh = std::string(name) + ".new";
  runtime::Descriptor file(openat(directory.descriptor(), fresh.c_str(),
                                  O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return;
  const bool whole = write(file.get(), text.data(), text.size()) == ssize_t(text.size());
  if (whole) renameat(directory.descriptor(), fresh.c_str(), directory.descriptor(), name);
}

std::string list_of(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

// Directories of nodes beside this one that come after it.
std::vector<std::string> beyond(const std::string& directory) {
  std::vector<std::string> out;
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(directory).parent_path();
  std::filesystem::directory_iterator entry(parent, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string path = entry->path().string();
    const bool node = entry->path().filename().string().starts_with("overlord-");
    if (node && path > directory) out.push_back(path);
  }
  return out;
}

struct Note {
  std::string run, job;
  std::vector<Rank> here;
};

Note parse(const std::string& text) {
  std::istringstream lines(text);
  Note note;
  lines >> note.run >> note.job;
  for (Rank rank = 0; lines >> rank;) note.here.push_back(rank);
  return note;
}

Status disagreement(const std::string& text) { return {Code::kStateMismatch, text}; }

}  // namespace

RunNotes::RunNotes(std::string directory, std::string run, Digest job)
    : directory_(std::move(directory)), run_(std::move(run)), job_(job) {}

void RunNotes::write_own(const std::vector<Rank>& here) {
  std::string text = run_ + " " + job_.hex();
  for (const Rank rank : here) text += " " + std::to_string(rank);
  if (text == written_) return;
  const auto own = transport::SocketDirectory::find(directory_);
  if (!own.ok()) return;
  leave_note(*own, kWaits, text);
  written_ = text;
}

std::optional<Status> RunNotes::look(const std::vector<Rank>& here,
                                     const std::vector<Rank>& missing, int64_t now_ns) {
  if (run_.empty() || here.empty()) return std::nullopt;
  write_own(here);
  const auto own = transport::SocketDirectory::find(directory_);
  if (!own.ok()) return std::nullopt;
  if (const std::string told = read_note(*own, kVerdict); !told.empty()) return disagreement(told);
  std::map<std::string, int64_t> since;
  for (const std::string& path : beyond(directory_)) {
    const auto other = transport::SocketDirectory::find(path);
    if (!other.ok()) continue;
    const Note note = parse(read_note(*other, kWaits));
    const bool has_ours = std::any_of(note.here.begin(), note.here.end(), [&](Rank rank) {
      return std::find(missing.begin(), missing.end(), rank) != missing.end();
    });
    if (note.run != run_ || !has_ours) continue;
    const auto seen = since_.find(path);
    since[path] = seen == since_.end() ? now_ns : seen->second;
    if (now_ns - since[path] < kCertainNs) continue;
    const std::string text = "ranks of this host ask for different jobs: rank " + list_of(here) +
                             " for " + job_.hex() + ", rank " + list_of(note.here) + " for " +
                             note.job +
                             "; every rank must use the same config, files, mesh and seed";
    leave_note(*other, kVerdict, text);
    return disagreement(text);
  }
  since_ = std::move(since);
  return std::nullopt;
}

void RunNotes::stop() {
  if (written_.empty()) return;
  written_.clear();
  const auto own = transport::SocketDirectory::find(directory_);
  if (own.ok()) unlinkat(own->descriptor(), kWaits, 0);
}

}  // namespace overlord::node
