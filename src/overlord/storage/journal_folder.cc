#include "overlord/storage/journal_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <utility>

#include "overlord/runtime/quote.h"
#include "overlord/storage/journal_frames.h"

namespace overlord::storage {
namespace {

using runtime::quote;

constexpr std::string_view kTermPrefix = "term-";
constexpr size_t kNameDigits = 8;
// A writer may remove what was just listed; each time it has written a whole base before.
constexpr int kReadTries = 1000;
// A listing may miss a segment that is renewed while it is made. What is lost is missed every time.
constexpr int kDamageTries = 8;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::optional<uint32_t> parse_digits(std::string_view text) {
  uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.size() < kNameDigits || stop != end || error != std::errc()) return std::nullopt;
  return value;
}

std::string parent_of(const std::string& folder) {
  const size_t last = folder.find_last_not_of('/');
  const size_t slash = last == std::string::npos ? last : folder.find_last_of('/', last);
  if (slash == std::string::npos) return last == std::string::npos ? "/" : ".";
  return slash == 0 ? "/" : folder.substr(0, slash);
}

// A new folder is there after a power failure once its parent is synced.
Status make_folder(const std::string& folder, mode_t mode, FileOperations& operations) {
  struct stat info;
  if (::stat(folder.c_str(), &info) == 0) return {};
  const std::string parent = parent_of(folder);
  if (parent != folder) OVERLORD_RETURN_IF_ERROR(make_folder(parent, 0777, operations));
  if (::mkdir(folder.c_str(), mode) != 0 && errno != EEXIST) {
    return journal_error(folder, {"cannot make its folder", errno});
  }
  const int error = operations.sync_folder(parent);
  return error == 0 ? Status() : journal_error(parent, {"cannot sync the folder above", error});
}

Result<std::string> read_all(int fd, const std::string& path) {
  std::string bytes;
  struct stat info;
  if (::fstat(fd, &info) != 0) return journal_error(path, {"cannot stat", errno});
  bytes.resize(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return journal_error(path, {"cannot read", errno});
    if (got == 0) break;  // a writer without space cut its tail meanwhile
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

// kNotFound: it was removed after it had been listed.
Result<std::string> read_segment(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.get() >= 0) return read_all(fd.get(), path);
  if (errno == ENOENT) return not_found("no segment at " + quote(path));
  return journal_error(path, {"cannot open", errno});
}

Result<uint64_t> size_of_segment(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) == 0) return static_cast<uint64_t>(info.st_size);
  if (errno == ENOENT) return not_found("no segment at " + quote(path));
  return journal_error(path, {"cannot stat", errno});
}

// The newest segment with a whole base. A base without an end and with nothing behind it was never
// durable, so what is older is still there.
Result<JournalFolder> read_listed(const std::string& folder,
                                  const std::vector<SegmentName>& names) {
  JournalFolder read;
  JournalContents& contents = read.contents;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const std::string path = folder + "/" + name->text();
    if (contents.segment) {
      OVERLORD_TRY(const uint64_t size_bytes, size_of_segment(path));
      read.segments.push_back({*name, size_bytes});
      continue;
    }
    OVERLORD_TRY(const std::string bytes, read_segment(path));
    OVERLORD_TRY(SegmentContents parsed, parse_segment(bytes, path));
    read.segments.push_back({*name, bytes.size()});
    contents.cut_bytes += parsed.cut_bytes;
    if (!parsed.has_base) continue;
    contents.segment = *name;
    contents.records = std::move(parsed.records);
    contents.valid_bytes = parsed.valid_bytes;
  }
  std::reverse(read.segments.begin(), read.segments.end());
  if (!contents.segment && names.front() != kFirstSegment) {
    return bad_data("journal " + quote(folder + "/" + names.back().text()) +
                    " is damaged at offset 0: no segment of the folder has a whole base, and "
                    "earlier ones are gone; restore the folder, or go back to a checkpoint");
  }
  return read;
}

}  // namespace

std::string SegmentName::text() const {
  char text[48];
  std::snprintf(text, sizeof text, "term-%08u.%08u", term, number);
  return text;
}

std::optional<SegmentName> parse_segment_name(std::string_view text) {
  const size_t dot = text.find('.');
  if (!text.starts_with(kTermPrefix) || dot == std::string_view::npos) return std::nullopt;
  const auto term = parse_digits(text.substr(kTermPrefix.size(), dot - kTermPrefix.size()));
  const auto number = parse_digits(text.substr(dot + 1));
  if (!term || !number) return std::nullopt;
  const SegmentName name{*term, *number};
  return name.text() == text ? std::optional(name) : std::nullopt;
}

Status prepare_journal_folder(const std::string& folder, FileOperations& operations) {
  OVERLORD_RETURN_IF_ERROR(make_folder(folder, 0700, operations));
  struct stat info;
  if (::stat(folder.c_str(), &info) != 0) return journal_error(folder, {"cannot stat", errno});
  if (!S_ISDIR(info.st_mode)) {
    return invalid_argument("journal " + quote(folder) + " is not a folder; name another");
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return invalid_argument("journal folder " + quote(folder) +
                            " belongs to, or can be written by, other users; use one of mode 0700");
  }
  return {};
}

Result<std::vector<SegmentName>> list_segments(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (!entries) {
    if (errno == ENOENT) return not_found("no journal at " + quote(folder));
    return journal_error(folder, {"cannot list its folder", errno});
  }
  std::vector<SegmentName> names;
  errno = 0;
  while (const dirent* entry = ::readdir(entries.get())) {
    if (const auto name = parse_segment_name(entry->d_name)) names.push_back(*name);
    errno = 0;
  }
  if (errno != 0) return journal_error(folder, {"cannot list its folder", errno});
  std::sort(names.begin(), names.end());
  return names;
}

Result<JournalFolder> read_journal(const std::string& folder) {
  int damaged = 0;
  for (int tries = 1;; ++tries) {
    OVERLORD_TRY(const std::vector<SegmentName> names, list_segments(folder));
    if (names.empty()) return not_found("no journal in " + quote(folder));
    Result<JournalFolder> read = read_listed(folder, names);
    if (read.status().code() == Code::kBadData && ++damaged < kDamageTries) continue;
    if (read.status().code() != Code::kNotFound) return read;
    if (tries == kReadTries) {
      return Status(Code::kUnavailable,
                    "journal " + quote(folder) + " changes faster than it can be read; try again");
    }
  }
}

}  // namespace overlord::storage
