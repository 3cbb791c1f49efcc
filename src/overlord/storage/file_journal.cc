#include "overlord/storage/file_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "overlord/base/bytes.h"
#include "overlord/base/guarded_by.h"
#include "overlord/runtime/quote.h"
#include "overlord/storage/crc32c.h"

namespace overlord::storage {
namespace {

using runtime::quote;

constexpr uint32_t kMagic = 0x4a564f00;  // "OVJ" above one byte of version
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 12;
constexpr size_t kMaxRecordBytes = 256 << 20;

Status io_error(const std::string& what, const std::string& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return {Code::kResource, "journal " + quote(path) + ": " + what + ": " + std::strerror(error) +
                               (full ? "; free some disk space and start again" : "")};
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

uint32_t frame_crc(std::string_view length_and_magic, std::string_view body) {
  return crc32c(body.data(), body.size(), crc32c(length_and_magic.data(), length_and_magic.size()));
}

void append_frame(const std::string& body, std::string* out) {
  ByteWriter header;
  header.u32(static_cast<uint32_t>(body.size()));
  header.u32(kMagic | kVersion);
  header.u32(frame_crc(header.bytes(), body));
  *out += header.bytes();
  *out += body;
}

enum class Frame { kGood, kBad, kForeignVersion };

Frame parse_frame(std::string_view bytes, std::string_view* body) {
  if (bytes.size() < kHeaderBytes) return Frame::kBad;
  ByteReader reader(bytes);
  const uint32_t length = reader.u32();
  const uint32_t magic = reader.u32();
  const uint32_t crc = reader.u32();
  if ((magic & ~0xffu) != kMagic || length > reader.remaining()) return Frame::kBad;
  *body = reader.raw(length);
  if (frame_crc(bytes.substr(0, 8), *body) != crc) return Frame::kBad;
  return (magic & 0xff) == kVersion ? Frame::kGood : Frame::kForeignVersion;
}

// Whether any whole frame begins after the start of `bytes`: then what is before it is damage.
bool has_later_frame(std::string_view bytes) {
  const char first = static_cast<char>(kVersion);  // low byte of the magic word
  for (size_t at = 5; at + 8 <= bytes.size(); ++at) {
    at = bytes.find(first, at);
    if (at == std::string_view::npos) return false;
    std::string_view body;
    if (at >= 5 && parse_frame(bytes.substr(at - 4), &body) == Frame::kGood) return true;
  }
  return false;
}

Result<JournalContents> parse_journal(std::string_view bytes, const std::string& path) {
  JournalContents contents;
  while (contents.valid_bytes < bytes.size()) {
    const std::string_view rest = bytes.substr(contents.valid_bytes);
    std::string_view body;
    const Frame frame = parse_frame(rest, &body);
    if (frame == Frame::kForeignVersion) {
      return Status(Code::kVersionMismatch,
                    "journal " + quote(path) + " is of version " +
                        std::to_string(static_cast<unsigned char>(rest[4])) +
                        ", this build reads " + std::to_string(kVersion) +
                        "; use the build that wrote it");
    }
    if (frame == Frame::kBad) {
      if (has_later_frame(rest)) {
        return bad_data("journal " + quote(path) + " is damaged at offset " +
                        std::to_string(contents.valid_bytes) +
                        ": good records follow, so this is " +
                        "no torn tail; restore the file, or go back to a checkpoint before it");
      }
      contents.cut_bytes = rest.size();
      break;
    }
    contents.records.emplace_back(body);
    contents.valid_bytes += kHeaderBytes + body.size();
  }
  return contents;
}

Result<std::string> read_all(int fd, const std::string& path) {
  std::string bytes;
  struct stat info;
  if (::fstat(fd, &info) != 0) return io_error("cannot stat", path, errno);
  bytes.resize(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error("cannot read", path, errno);
    if (got == 0) break;  // a writer cut its tail meanwhile
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Made 0700 when it is missing; an existing one must be ours and closed to other writers, or they
// could plant a journal.
Status prepare_directory(const std::string& directory) {
  struct stat info;
  if (::stat(directory.c_str(), &info) != 0) {
    std::error_code error;
    const std::string parent = directory_of(directory);
    std::filesystem::create_directories(parent, error);
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
      return io_error("cannot make its directory", directory, errno);
    }
    if (::stat(directory.c_str(), &info) != 0) return io_error("cannot stat", directory, errno);
  }
  if (!S_ISDIR(info.st_mode)) return invalid_argument(quote(directory) + " is not a directory");
  if (info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return invalid_argument("journal directory " + quote(directory) +
                            " belongs to, or can be written by, other users; use one of mode 0700");
  }
  return {};
}

Status sync_directory(const std::string& directory) {
  const Descriptor fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || ::fsync(fd.get()) != 0) {
    return io_error("cannot sync its directory", directory, errno);
  }
  return {};
}

Status lock_file(int fd, const std::string& path) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return {};
  if (errno == EWOULDBLOCK) {
    return {Code::kUnavailable,
            "journal " + quote(path) +
                " is held by another writer; stop it first, or use another path"};
  }
  return {Code::kResource, "journal " + quote(path) + " cannot be locked: " + std::strerror(errno) +
                               "; put it on a file system with locks"};
}

Status write_all(int fd, std::string_view bytes, uint64_t offset, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return io_error("write failed", path, errno);
    bytes.remove_prefix(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return {};
}

}  // namespace

Result<JournalContents> read_journal(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.get() < 0) {
    if (errno == ENOENT) return not_found("no journal at " + quote(path));
    return io_error("cannot open", path, errno);
  }
  OVERLORD_TRY(const std::string bytes, read_all(fd.get(), path));
  return parse_journal(bytes, path);
}

Result<std::unique_ptr<FileJournal>> FileJournal::open(const std::string& path,
                                                       JournalContents* contents) {
  OVERLORD_RETURN_IF_ERROR(prepare_directory(directory_of(path)));
  Descriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd.get() < 0) return io_error("cannot open", path, errno);
  OVERLORD_RETURN_IF_ERROR(lock_file(fd.get(), path));
  OVERLORD_TRY(const std::string bytes, read_all(fd.get(), path));
  OVERLORD_TRY(*contents, parse_journal(bytes, path));
  if (contents->cut_bytes > 0) {
    if (::ftruncate(fd.get(), static_cast<off_t>(contents->valid_bytes)) != 0 ||
        ::fdatasync(fd.get()) != 0) {
      return io_error("cannot cut the torn tail", path, errno);
    }
  }
  OVERLORD_RETURN_IF_ERROR(sync_directory(directory_of(path)));
  return std::unique_ptr<FileJournal>(new FileJournal(path, fd.release(), contents->valid_bytes));
}

FileJournal::FileJournal(std::string path, int fd, uint64_t size_bytes)
    : path_(std::move(path)), fd_(fd), size_bytes_(size_bytes), thread_([this] { work(); }) {}

FileJournal::~FileJournal() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
  ::close(fd_);
}

void FileJournal::append(std::string record, std::function<void(Status)> durable) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(record), std::move(durable)});
  }
  wake_.notify_one();
}

void FileJournal::work() {
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  while (true) {
    wake_.wait(lock, [this]() OVERLORD_REQUIRES(mutex_) { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::vector<Pending> batch = std::exchange(waiting_, {});
    Status status = failed_;
    lock.unlock();
    if (status.ok()) status = commit(batch);
    // Failure is known to later appends before any callback can make one.
    lock.lock();
    if (failed_.ok()) failed_ = status;
    ++syncs_;
    lock.unlock();
    for (Pending& pending : batch) pending.durable(status);
    batch.clear();
    lock.lock();
  }
}

Status FileJournal::commit(const std::vector<Pending>& batch) {
  std::string frames;
  for (const Pending& pending : batch) {
    if (pending.record.size() > kMaxRecordBytes) {
      return invalid_argument("journal " + quote(path_) + ": record of " +
                              std::to_string(pending.record.size()) +
                              " bytes is over the limit of " + std::to_string(kMaxRecordBytes));
    }
    append_frame(pending.record, &frames);
  }
  OVERLORD_RETURN_IF_ERROR(write_all(fd_, frames, size_bytes_, path_));
  if (::fdatasync(fd_) != 0) return io_error("fdatasync failed", path_, errno);
  size_bytes_ += frames.size();
  return {};
}

uint64_t FileJournal::syncs() const {
  std::lock_guard lock(mutex_);
  return syncs_;
}

}  // namespace overlord::storage
