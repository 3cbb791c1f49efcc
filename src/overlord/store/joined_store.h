// JoinedStore: ranges of one object that are asked for together and lie close together become one
// request. Callers ask as if each were alone, and get a view of what came. What nobody wanted
// between them is bounded, and so is what one request holds.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/store/object_store.h"

namespace overlord::store {

struct JoinRule {
  int64_t gather_ns = 1'000'000;     // for so long others may join the first
  uint64_t most_bytes = 8ull << 20;  // of a joined request
  uint32_t waste_permille = 150;     // bytes that nobody wants, of those that somebody does
};

class JoinedStore final : public ObjectStore {
 public:
  explicit JoinedStore(std::unique_ptr<ObjectStore> store, JoinRule rule = {});

  void get(RangeRequest request, runtime::CancelToken cancel, RangeDone done) override;
  void head(ObjectName object, runtime::CancelToken cancel, InfoDone done) override;
  void list(ListRequest request, runtime::CancelToken cancel, ListDone done) override;
  void after(int64_t delay_ns, runtime::Task task) override;

 private:
  struct Wanted {
    RangeRequest request;
    runtime::CancelToken cancel;
    RangeDone done;

    uint64_t end() const { return request.offset + request.size_bytes; }
  };
  struct Group;
  void send_gathered();
  void send(std::vector<Wanted> members);
  void watch(const std::shared_ptr<Group>& group);

  const JoinRule rule_;
  std::mutex mutex_;
  std::vector<Wanted> gathered_ OVERLORD_GUARDED_BY(mutex_);
  const std::unique_ptr<ObjectStore> store_;  // last: its thread uses the others
};

}  // namespace overlord::store
