#include "overlord/storage/glob.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include "overlord/runtime/quote.h"

namespace overlord::storage {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxMatches = 4'000'000;  // a pattern over a whole disk is a mistake
constexpr size_t kOddShown = 5;
constexpr size_t kMostAlternatives = 1'000'000;  // names that one pattern counts out
constexpr size_t kMostNested = 16;
constexpr size_t kMostDigits = 18;
constexpr size_t kMissingShown = 4;

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

// From a pattern with braces to the names that it stands for.
class Braces {
 public:
  explicit Braces(const std::string& pattern) : pattern_(pattern), rest_(pattern) {}

  Result<std::vector<std::string>> expand() { return sequence(0); }

 private:
  using Names = std::vector<std::string>;

  Status error(const std::string& what) const {
    return invalid_argument("pattern " + runtime::quote(pattern_) + ": " + what +
                            "; a brace that belongs to a name is written \\{ or \\}");
  }

  // All names up to the end, or up to the comma or brace that ends an item.
  Result<Names> sequence(size_t depth) {
    Names names = {""};
    std::string text;
    const auto add_text = [&] {
      for (std::string& name : names) name += text;
      text.clear();
    };
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (depth > 0 && (c == ',' || c == '}')) break;
      if (c == '}') return error("a closing brace without an opening one");
      rest_.remove_prefix(1);
      if (c == '\\' && is_escaped(depth)) {
        text += rest_.front();
        rest_.remove_prefix(1);
      } else if (c == '{') {
        OVERLORD_TRY(const Names items, group(depth + 1));
        add_text();
        if (names.size() > kMostAlternatives / items.size()) return too_many();
        Names joined;
        joined.reserve(names.size() * items.size());
        for (const std::string& name : names) {
          for (const std::string& item : items) joined.push_back(name + item);
        }
        names = std::move(joined);
      } else {
        text += c;
      }
    }
    add_text();
    return names;
  }

  bool is_escaped(size_t depth) const {
    if (rest_.empty()) return false;
    return rest_.front() == '{' || rest_.front() == '}' || (rest_.front() == ',' && depth > 0);
  }

  // What stands behind an opening brace, with the closing one.
  Result<Names> group(size_t depth) {
    if (depth > kMostNested) return error("braces lie too deep in each other");
    const std::string_view inside = rest_.substr(0, rest_.find_first_of("{},\\"));
    if (inside.size() < rest_.size() && rest_[inside.size()] == '}' &&
        inside.find("..") != std::string_view::npos) {
      rest_.remove_prefix(inside.size() + 1);
      return range(inside);
    }
    Names items;
    size_t count = 0;
    while (true) {
      OVERLORD_TRY(const Names item, sequence(depth));
      if (items.size() + item.size() > kMostAlternatives) return too_many();
      items.insert(items.end(), item.begin(), item.end());
      ++count;
      if (rest_.empty()) return error("an opening brace without a closing one");
      const char end = rest_.front();
      rest_.remove_prefix(1);
      if (end == '}') break;
    }
    if (count > 1) return items;
    return error("braces hold neither a list {a,b} nor a range {000..127}");
  }

  Status too_many() const {
    return error("stands for more than " + std::to_string(kMostAlternatives) + " names");
  }

  // `000..127`, `a..f`, each also with a step behind.
  Result<Names> range(std::string_view text) const {
    const auto wrong = [&](const char* what) {
      return error("{" + std::string(text) + "} " + what);
    };
    std::string_view first = text.substr(0, text.find(".."));
    std::string_view last = text.substr(first.size() + 2);
    uint64_t step = 1;
    if (const size_t more = last.find(".."); more != std::string_view::npos) {
      const auto stated = number(last.substr(more + 2));
      if (!stated || *stated == 0) return wrong("has a step that is no number above 0");
      step = *stated;
      last = last.substr(0, more);
    }
    const auto from = number(first), to = number(last);
    const bool letters = is_letter(first) && is_letter(last);
    if (!letters && (!from || !to)) return wrong("is no range of numbers or of single letters");
    const uint64_t begin = letters ? static_cast<uint64_t>(first[0]) : *from;
    const uint64_t end = letters ? static_cast<uint64_t>(last[0]) : *to;
    if (end < begin) return wrong("runs backwards; write the smaller end first");
    if ((end - begin) / step >= kMostAlternatives) return too_many();
    const auto is_padded = [](std::string_view end) { return end.size() > 1 && end[0] == '0'; };
    const bool padded = is_padded(first) || is_padded(last);
    const size_t width = padded ? std::max(first.size(), last.size()) : 1;
    Names names;
    for (uint64_t value = begin; value <= end; value += step) {
      std::string name = letters ? std::string(1, static_cast<char>(value)) : std::to_string(value);
      names.push_back(std::string(width - std::min(width, name.size()), '0') + name);
    }
    return names;
  }

  static bool is_letter(std::string_view text) {
    return text.size() == 1 &&
           ((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z'));
  }

  static std::optional<uint64_t> number(std::string_view text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if (!whole || text.size() > kMostDigits) return std::nullopt;
    return value;
  }

  const std::string& pattern_;
  std::string_view rest_;
};

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

Result<std::vector<std::string>> expand_braces(const std::string& pattern) {
  if (pattern.find_first_of("{}") == std::string::npos) return std::vector<std::string>{pattern};
  return Braces(pattern).expand();
}

Result<std::vector<std::string>> list_alternatives(const std::string& pattern,
                                                   const ListOne& list_one) {
  OVERLORD_TRY(const std::vector<std::string> names, expand_braces(pattern));
  if (names.size() == 1) return list_one(names.front());
  std::vector<std::string> found;
  std::string missing;
  size_t missed = 0;
  for (const std::string& name : names) {
    Result<std::vector<std::string>> matches = list_one(name);
    if (matches.ok()) {
      found.insert(found.end(), matches->begin(), matches->end());
      continue;
    }
    if (matches.status().code() != Code::kNotFound) return matches.status();
    missing += (missed > 0 ? ", " : "") + runtime::quote(name);
    if (++missed == kMissingShown) break;  // each may be a question to a store
  }
  if (missed > 0) {
    return not_found(runtime::quote(pattern) + " stands for " + std::to_string(names.size()) +
                     " names, and there is no " + missing +
                     (missed == kMissingShown ? ", perhaps among others" : "") +
                     "; bring what is missing, or write the braces so that they leave it out");
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
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
