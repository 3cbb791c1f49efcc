#include "overlord/storage/glob.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "overlord/runtime/quote.h"

namespace overlord::storage {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxMatches = 4'000'000;  // a pattern over a whole disk is a mistake
constexpr size_t kOddShown = 5;

std::vector<std::string> components(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    if (slash > 0) parts.emplace_back(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return parts;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool is_odd(std::string_view name) {
  return name.starts_with('_') || name.starts_with('.') || ends_with(name, ".crc") ||
         ends_with(name, ".md5") || ends_with(name, ".sha256");
}

// "*.parquet" names an extension, "part-*" and "*" do not.
bool names_extension(std::string_view last) {
  const size_t wild = last.find_last_of("*?");
  return wild == std::string_view::npos || last.find('.', wild) != std::string_view::npos;
}

class Walk {
 public:
  Walk(std::vector<std::string> parts, bool extension)
      : parts_(std::move(parts)), extension_(extension) {}

  Status visit(const std::string& directory, size_t part) {
    if (part == parts_.size()) return {};
    const std::string& pattern = parts_[part];
    if (pattern == "**") {
      OVERLORD_RETURN_IF_ERROR(visit(directory, part + 1));
    } else if (!is_glob(pattern)) {
      return visit_named(join(directory, pattern), part);
    }
    return visit_listed(directory, part);
  }

  std::vector<std::string> take() {
    std::sort(matches_.begin(), matches_.end());
    matches_.erase(std::unique(matches_.begin(), matches_.end()), matches_.end());
    return std::move(matches_);
  }

 private:
  static std::string join(const std::string& directory, const std::string& name) {
    if (directory.empty()) return name;
    return directory.back() == '/' ? directory + name : directory + "/" + name;
  }

  Status visit_named(const std::string& path, size_t part) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (part + 1 == parts_.size()) return fs::is_regular_file(status) ? add(path) : Status();
    return fs::is_directory(status) ? visit(path, part + 1) : Status();
  }

  Status visit_listed(const std::string& directory, size_t part) {
    const std::string& pattern = parts_[part];
    const bool last = part + 1 == parts_.size();
    std::error_code error;
    fs::directory_iterator entries(directory.empty() ? "." : directory, error);
    if (error) {
      if (error == std::errc::no_such_file_or_directory) return {};
      return Status(Code::kResource,
                    "cannot list directory " + runtime::quote(directory) + ": " + error.message());
    }
    for (; entries != fs::directory_iterator(); entries.increment(error)) {
      const std::string name = entries->path().filename().string();
      const std::string path = join(directory, name);
      std::error_code ignored;
      if (pattern == "**") {
        if (name.starts_with('.')) continue;
        if (entries->is_directory(ignored) && !entries->is_symlink(ignored)) {
          OVERLORD_RETURN_IF_ERROR(visit(path, part));
        } else if (last && entries->is_regular_file(ignored)) {
          OVERLORD_RETURN_IF_ERROR(add(path));
        }
        continue;
      }
      const bool hidden = name.starts_with('.') && !pattern.starts_with('.');
      if (hidden && (extension_ || !last)) continue;
      if (!glob_matches(pattern, name)) continue;
      if (last && entries->is_regular_file(ignored)) OVERLORD_RETURN_IF_ERROR(add(path));
      if (!last && entries->is_directory(ignored)) {
        OVERLORD_RETURN_IF_ERROR(visit(path, part + 1));
      }
    }
    if (!error) return {};
    return Status(Code::kResource,
                  "listing of " + runtime::quote(directory) + " broke off: " + error.message());
  }

  Status add(const std::string& path) {
    if (matches_.size() >= kMaxMatches) {
      return invalid_argument("glob matches more than " + std::to_string(kMaxMatches) + " files");
    }
    matches_.push_back(path);
    return {};
  }

  const std::vector<std::string> parts_;
  const bool extension_;
  std::vector<std::string> matches_;
};

Status check_odd(const std::string& pattern, const std::vector<std::string>& matches) {
  std::string names;
  size_t odd = 0;
  for (const std::string& path : matches) {
    const std::string name = path.substr(path.find_last_of('/') + 1);
    if (!is_odd(name)) continue;
    if (++odd <= kOddShown) names += (odd > 1 ? ", " : "") + runtime::quote(name);
  }
  if (odd == 0) return {};
  if (odd > kOddShown) names += " and " + std::to_string(odd - kOddShown) + " more";
  return invalid_argument("glob " + runtime::quote(pattern) +
                          " also matches marker or checksum files: " + names +
                          "; name the extension to read, for example '*.parquet'");
}

using Parts = std::vector<std::string>;

// What Walk does with directories, for a name that was listed.
bool parts_match(const Parts& pattern, size_t p, const Parts& name, size_t n, bool extension) {
  if (p == pattern.size()) return n == name.size();
  const bool last = p + 1 == pattern.size();
  if (pattern[p] == "**") {
    if (!last && parts_match(pattern, p + 1, name, n, extension)) return true;
    if (n == name.size() || name[n].starts_with('.')) return false;
    return (last && n + 1 == name.size()) || parts_match(pattern, p, name, n + 1, extension);
  }
  if (n == name.size() || !glob_matches(pattern[p], name[n])) return false;
  const bool hidden = name[n].starts_with('.') && !pattern[p].starts_with('.');
  if (hidden && is_glob(pattern[p]) && (extension || !last)) return false;
  return parts_match(pattern, p + 1, name, n + 1, extension);
}

Status nothing_matches(const std::string& pattern) {
  return not_found("no file matches " + runtime::quote(pattern) +
                   "; check the path, `*` does not cross directories and `**` does");
}

}  // namespace

Result<std::vector<std::string>> match_glob(const std::string& pattern,
                                            const std::vector<std::string>& names) {
  const Parts parts = components(pattern);
  if (parts.empty()) return invalid_argument("empty glob pattern");
  const bool extension = names_extension(parts.back());
  std::vector<std::string> matches;
  for (const std::string& name : names) {
    if (parts_match(parts, 0, components(name), 0, extension)) matches.push_back(name);
  }
  if (matches.empty()) return nothing_matches(pattern);
  if (!extension) OVERLORD_RETURN_IF_ERROR(check_odd(pattern, matches));
  std::sort(matches.begin(), matches.end());
  return matches;
}

bool is_glob(std::string_view pattern) {
  return pattern.find_first_of("*?") != std::string_view::npos;
}

bool glob_matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, mark = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Result<std::vector<std::string>> expand_glob(const std::string& pattern) {
  std::vector<std::string> parts = components(pattern);
  if (parts.empty()) return invalid_argument("empty glob pattern");
  const bool extension = names_extension(parts.back());
  Walk walk(std::move(parts), extension);
  OVERLORD_RETURN_IF_ERROR(walk.visit(pattern.starts_with('/') ? "/" : "", 0));
  std::vector<std::string> matches = walk.take();
  if (matches.empty()) return nothing_matches(pattern);
  if (!extension) OVERLORD_RETURN_IF_ERROR(check_odd(pattern, matches));
  return matches;
}

Result<std::vector<runtime::ListedFile>> files_below(const std::string& folder, uint64_t most) {
  std::error_code error;
  std::vector<runtime::ListedFile> files;
  fs::recursive_directory_iterator entries(folder, error);
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    std::error_code ignored;  // of a link that leads nowhere
    if (!entries->is_regular_file(ignored)) continue;
    if (files.size() == most) {
      return invalid_argument("folder " + runtime::quote(folder) + " has more than " +
                              std::to_string(most) + " files; name a folder in it");
    }
    files.push_back({entries->path().string(), entries->file_size(ignored)});
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return Status(Code::kResource,
                  "cannot list folder " + runtime::quote(folder) + ": " + error.message());
  }
  if (files.empty()) return not_found("no file lies below " + runtime::quote(folder));
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.uri < b.uri; });
  return files;
}

}  // namespace overlord::storage
