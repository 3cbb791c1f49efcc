// ObjectStore: what is wanted of a store of immutable objects, whatever its protocol: list, head,
// and ranges that are of one version or are refused. Asynchronous, with a time within which it
// answers. docs/decisions/0080-object-stores.md
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/runtime/buffer.h"
#include "overlord/runtime/seams.h"

namespace overlord::store {

struct ObjectName {
  std::string bucket;
  std::string key;

  std::string uri() const { return "s3://" + bucket + "/" + key; }
};

struct ObjectInfo {
  std::string key;
  uint64_t size_bytes = 0;
  std::string etag;  // without quotes
};

struct RangeRequest {
  ObjectName object;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  // Of the version that is meant, without quotes; else kSourceChanged, by name. Empty: of any.
  std::string etag;
};

struct Range {
  runtime::Bytes bytes;
  std::string etag;
};

// Objects under a prefix, sorted by key. With `one_level`, none that have a '/' behind it.
struct ListRequest {
  std::string bucket;
  std::string prefix;
  bool one_level = false;
  uint64_t most = 0;  // more are refused
};

class ObjectStore {
 public:
  using RangeDone = std::function<void(Result<Range>)>;
  using InfoDone = std::function<void(Result<ObjectInfo>)>;
  using ListDone = std::function<void(Result<std::vector<ObjectInfo>>)>;

  virtual ~ObjectStore() = default;
  // Each calls back once, on a thread of the store that must not be blocked.
  virtual void get(RangeRequest request, runtime::CancelToken cancel, RangeDone done) = 0;
  virtual void head(ObjectName object, runtime::CancelToken cancel, InfoDone done) = 0;
  virtual void list(ListRequest request, runtime::CancelToken cancel, ListDone done) = 0;
  // Runs `task` on a thread of the store, `delay_ns` from now at the earliest; at once when it
  // ends.
  virtual void after(int64_t delay_ns, runtime::Task task) = 0;
};

}  // namespace overlord::store
