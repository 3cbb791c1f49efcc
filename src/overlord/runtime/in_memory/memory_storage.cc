#include "overlord/runtime/in_memory/memory_storage.h"

#include <utility>

#include "overlord/base/guarded_by.h"
#include "overlord/base/hash.h"
#include "overlord/runtime/quote.h"

namespace overlord::runtime {
namespace {

bool matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*') {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

void MemoryStorage::put(const std::string& uri, std::string bytes) {
  std::lock_guard lock(mutex_);
  Object object;
  object.fingerprint.size_bytes = bytes.size();
  object.fingerprint.modified_ns = ++version_;
  object.fingerprint.content = hash64(bytes.data(), bytes.size());
  object.bytes = std::make_shared<const std::string>(std::move(bytes));
  objects_[uri] = std::move(object);
}

void MemoryStorage::remove(const std::string& uri) {
  std::lock_guard lock(mutex_);
  objects_.erase(uri);
}

void MemoryStorage::read(ReadRequest request, CancelToken cancel, ReadDone done) {
  Result<Bytes> answer = cancel.cancelled()
                             ? Result<Bytes>(Status(Code::kCancelled, "read was cancelled"))
                             : read_blocking(request);
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  pending_.push_back({std::move(answer), std::move(done)});
  if (answering_) return;
  answering_ = true;
  while (!pending_.empty()) {
    Pending next = std::move(pending_.front());
    pending_.pop_front();
    lock.unlock();
    next.done(std::move(next.answer));
    lock.lock();
  }
  answering_ = false;
}

Result<Bytes> MemoryStorage::read_blocking(const ReadRequest& request) {
  std::lock_guard lock(mutex_);
  ++reads_;
  const auto found = objects_.find(request.uri);
  if (found == objects_.end()) return not_found("no such object: " + quote(request.uri));
  const Object& object = found->second;
  if (request.expected != model::Fingerprint{} && request.expected != object.fingerprint) {
    return Status(Code::kSourceChanged, "shard changed: " + quote(request.uri));
  }
  const uint64_t size = object.bytes->size();
  if (request.offset > size || request.size_bytes > size - request.offset) {
    return bad_data("read past the end of " + quote(request.uri) + ": offset " +
                    std::to_string(request.offset) + ", size " +
                    std::to_string(request.size_bytes) + ", object has " + std::to_string(size));
  }
  return Bytes{object.bytes, object.bytes->data() + request.offset,
               static_cast<size_t>(request.size_bytes)};
}

Result<FileInfo> MemoryStorage::stat(const std::string& uri) {
  std::lock_guard lock(mutex_);
  const auto found = objects_.find(uri);
  if (found == objects_.end()) return not_found("no such object: " + quote(uri));
  return FileInfo{uri, found->second.fingerprint};
}

Result<std::vector<std::string>> MemoryStorage::list(const std::string& pattern) {
  std::lock_guard lock(mutex_);
  std::vector<std::string> uris;
  for (const auto& [uri, object] : objects_) {
    if (matches(pattern, uri)) uris.push_back(uri);
  }
  if (uris.empty()) return not_found("no object matches " + quote(pattern));
  return uris;
}

Result<std::vector<ListedFile>> MemoryStorage::list_folder(const std::string& uri, uint64_t most) {
  std::lock_guard lock(mutex_);
  std::vector<ListedFile> files;
  for (auto found = objects_.lower_bound(uri); found != objects_.end(); ++found) {
    if (!found->first.starts_with(uri)) break;
    if (files.size() == most) return invalid_argument("too many objects below " + quote(uri));
    files.push_back({found->first, found->second.bytes->size()});
  }
  if (files.empty()) return not_found("no object lies below " + quote(uri));
  return files;
}

uint64_t MemoryStorage::reads() const {
  std::lock_guard lock(mutex_);
  return reads_;
}

}  // namespace overlord::runtime
