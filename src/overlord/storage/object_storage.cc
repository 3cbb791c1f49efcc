#include "overlord/storage/object_storage.h"

#include <algorithm>
#include <future>
#include <utility>

#include "overlord/base/hash.h"
#include "overlord/runtime/quote.h"
#include "overlord/storage/glob.h"
#include "overlord/store/s3_uri.h"

namespace overlord::storage {
namespace {

using runtime::quote;

constexpr uint64_t kMostListed = 4'000'000;  // as many as a glob over a disk may match
// So many objects of a folder asked for one by one: the rest is listed, a thousand at a time.
constexpr uint32_t kAskedBeforeListing = 3;
constexpr uint64_t kMostListedFolder = 200'000;

model::Fingerprint fingerprint_of_object(uint64_t size_bytes, const std::string& etag) {
  model::Fingerprint out;
  out.size_bytes = size_bytes;
  out.content = hash64(etag.data(), etag.size());
  out.set_etag(etag);
  return out;
}

template <typename T, typename Start>
Result<T> wait_for(const Start& start) {
  auto answer = std::make_shared<std::promise<Result<T>>>();
  auto future = answer->get_future();
  start([answer](Result<T> result) { answer->set_value(std::move(result)); });
  return future.get();
}

Status check_ends(const runtime::ReadRequest& request) {
  if (request.expected == model::Fingerprint{}) return {};
  const uint64_t size = request.expected.size_bytes;
  if (request.offset <= size && request.size_bytes <= size - request.offset) return {};
  return bad_data("read past the end of " + quote(request.uri) + ": offset " +
                  std::to_string(request.offset) + ", size " + std::to_string(request.size_bytes) +
                  ", object has " + std::to_string(size) + " bytes");
}

// An ETag that is too long to be kept was not asked for: what came is compared by its hash.
Result<runtime::Bytes> of_version(const runtime::ReadRequest& request, store::Range range) {
  const model::Fingerprint& expected = request.expected;
  const bool asked = expected == model::Fingerprint{} || !expected.etag_text().empty();
  if (asked || range.bytes.size == 0 ||
      hash64(range.etag.data(), range.etag.size()) == expected.content) {
    return std::move(range.bytes);
  }
  return Status(Code::kSourceChanged,
                "shard " + quote(request.uri) +
                    " changed while in use: it was written again (another ETag); put the old "
                    "object back, or run `overlord index` and start a new stream");
}

}  // namespace

ObjectStorage::ObjectStorage(std::unique_ptr<store::ObjectStore> store)
    : store_(std::move(store)) {}

void ObjectStorage::read(runtime::ReadRequest request, runtime::CancelToken cancel,
                         runtime::ReadDone done) {
  const auto name = store::parse_s3_uri(request.uri);
  if (!name.ok()) return done(name.status());
  if (const Status ends = check_ends(request); !ends.ok()) return done(ends);
  if (cancel.cancelled()) {
    return done(Status(Code::kCancelled, "read of " + quote(request.uri) + " was cancelled"));
  }
  store::RangeRequest range{*name, request.offset, request.size_bytes,
                            std::string(request.expected.etag_text())};
  store_->get(std::move(range), std::move(cancel),
              [request = std::move(request), done = std::move(done)](Result<store::Range> got) {
                if (!got.ok()) return done(got.status());
                done(of_version(request, std::move(*got)));
              });
}

Result<runtime::Bytes> ObjectStorage::read_blocking(const runtime::ReadRequest& request) {
  return wait_for<runtime::Bytes>(
      [&](runtime::ReadDone done) { read(request, {}, std::move(done)); });
}

bool ObjectStorage::take_listed(const std::string& uri, model::Fingerprint* out) {
  const std::lock_guard lock(mutex_);
  const auto found = listed_.find(uri);
  if (found == listed_.end()) return false;
  *out = found->second;
  listed_.erase(found);
  return true;
}

bool ObjectStorage::should_list(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  return ++asked_[folder] == kAskedBeforeListing;
}

Result<runtime::FileInfo> ObjectStorage::stat(const std::string& uri) {
  OVERLORD_TRY(const store::ObjectName name, store::parse_s3_uri(uri));
  model::Fingerprint fingerprint;
  if (take_listed(uri, &fingerprint)) return runtime::FileInfo{uri, fingerprint};
  const std::string folder = name.key.substr(0, name.key.rfind('/') + 1);
  {
    const std::lock_guard listing(listing_mutex_);
    if (take_listed(uri, &fingerprint)) return runtime::FileInfo{uri, fingerprint};
    if (should_list("s3://" + name.bucket + "/" + folder)) {
      // Who may read objects and not list them still has them one by one.
      static_cast<void>(keys_under(name.bucket, folder, /*one_level=*/true).ok());
      if (take_listed(uri, &fingerprint)) return runtime::FileInfo{uri, fingerprint};
    }
  }
  OVERLORD_TRY(const store::ObjectInfo info,
               wait_for<store::ObjectInfo>([&](store::ObjectStore::InfoDone done) {
                 store_->head(name, {}, std::move(done));
               }));
  return runtime::FileInfo{uri, fingerprint_of_object(info.size_bytes, info.etag)};
}

Result<std::vector<store::ObjectInfo>> ObjectStorage::objects_under(store::ListRequest request) {
  const std::string bucket = request.bucket;
  OVERLORD_TRY(std::vector<store::ObjectInfo> objects,
               wait_for<std::vector<store::ObjectInfo>>([&](store::ObjectStore::ListDone done) {
                 store_->list(std::move(request), {}, std::move(done));
               }));
  // How some tools write a folder.
  std::erase_if(objects, [](const store::ObjectInfo& object) { return object.key.ends_with('/'); });
  const std::lock_guard lock(mutex_);
  for (const store::ObjectInfo& object : objects) {
    if (object.etag.empty()) continue;
    listed_["s3://" + bucket + "/" + object.key] =
        fingerprint_of_object(object.size_bytes, object.etag);
  }
  return objects;
}

Result<std::vector<std::string>> ObjectStorage::keys_under(const std::string& bucket,
                                                           const std::string& prefix,
                                                           bool one_level) {
  const uint64_t most = one_level ? kMostListedFolder : kMostListed;
  OVERLORD_TRY(const std::vector<store::ObjectInfo> objects,
               objects_under({bucket, prefix, one_level, most}));
  std::vector<std::string> keys;
  for (const store::ObjectInfo& object : objects) keys.push_back(object.key);
  return keys;
}

Result<std::vector<runtime::ListedFile>> ObjectStorage::list_folder(const std::string& uri,
                                                                    uint64_t most) {
  // A whole bucket is a folder too, of which no object has the name.
  const bool bucket = uri.find('/', store::kS3Scheme.size()) == uri.size() - 1;
  OVERLORD_TRY(store::ObjectName name, store::parse_s3_uri(bucket ? uri + "all" : uri));
  if (bucket) name.key.clear();
  OVERLORD_TRY(const std::vector<store::ObjectInfo> objects,
               objects_under({name.bucket, name.key, /*one_level=*/false, most}));
  std::vector<runtime::ListedFile> files;
  for (const store::ObjectInfo& object : objects) {
    files.push_back({"s3://" + name.bucket + "/" + object.key, object.size_bytes});
  }
  if (files.empty()) return not_found("no object lies below " + quote(uri));
  return files;
}

Result<std::vector<std::string>> ObjectStorage::list(const std::string& pattern) {
  Listings listings;
  return list_alternatives(pattern,
                           [&](const std::string& name) { return list_one(name, &listings); });
}

Result<std::vector<std::string>> ObjectStorage::list_one(const std::string& pattern,
                                                         Listings* listings) {
  OVERLORD_TRY(const store::ObjectName name, store::parse_s3_uri(pattern));
  if (!is_glob(name.key)) {
    OVERLORD_TRY(const runtime::FileInfo info, stat(pattern));
    const std::lock_guard lock(mutex_);
    listed_[pattern] = info.fingerprint;
    return std::vector<std::string>{pattern};
  }
  const std::string prefix = name.key.substr(0, name.key.find_first_of("*?"));
  const std::string rest = name.key.substr(prefix.size());
  const bool one_level = rest.find('/') == std::string::npos && rest.find("**") != 0;
  const auto [found, is_new] = listings->try_emplace({name.bucket + "/" + prefix, one_level});
  if (is_new) {
    OVERLORD_TRY(found->second, keys_under(name.bucket, prefix, one_level));
  }
  Result<std::vector<std::string>> matches = match_glob(name.key, found->second);
  if (!matches.ok()) {
    return matches.status().with_context("bucket " + quote(name.bucket));
  }
  for (std::string& key : *matches) key = "s3://" + name.bucket + "/" + key;
  return matches;
}

}  // namespace overlord::storage
