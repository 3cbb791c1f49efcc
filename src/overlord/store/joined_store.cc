#include "overlord/store/joined_store.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "overlord/store/http_client.h"

namespace overlord::store {

struct JoinedStore::Group {
  std::vector<Wanted> members;
  runtime::CancelToken cancel;
  bool over = false;
};

JoinedStore::JoinedStore(std::unique_ptr<ObjectStore> store, JoinRule rule)
    : rule_(rule), store_(std::move(store)) {}

void JoinedStore::get(RangeRequest request, runtime::CancelToken cancel, RangeDone done) {
  // Of no known version, ranges may be of several.
  if (request.etag.empty() || request.size_bytes == 0 || request.size_bytes > rule_.most_bytes) {
    return store_->get(std::move(request), std::move(cancel), std::move(done));
  }
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = gathered_.empty();
    gathered_.push_back({std::move(request), std::move(cancel), std::move(done)});
  }
  if (first) store_->after(rule_.gather_ns, [this] { send_gathered(); });
}

void JoinedStore::head(ObjectName object, runtime::CancelToken cancel, InfoDone done) {
  store_->head(std::move(object), std::move(cancel), std::move(done));
}

void JoinedStore::list(ListRequest request, runtime::CancelToken cancel, ListDone done) {
  store_->list(std::move(request), std::move(cancel), std::move(done));
}

void JoinedStore::after(int64_t delay_ns, runtime::Task task) {
  store_->after(delay_ns, std::move(task));
}

void JoinedStore::send_gathered() {
  std::vector<Wanted> wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted.swap(gathered_);
  }
  std::stable_sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
    const auto key = [](const Wanted& w) {
      const RangeRequest& request = w.request;
      return std::tie(request.object.bucket, request.object.key, request.etag, request.offset);
    };
    return key(a) < key(b);
  });
  std::vector<Wanted> group;
  uint64_t end = 0, useful = 0;
  for (Wanted& next : wanted) {
    const RangeRequest& request = next.request;
    if (!group.empty()) {
      const RangeRequest& first = group.front().request;
      const bool same = first.object.bucket == request.object.bucket &&
                        first.object.key == request.object.key && first.etag == request.etag;
      const uint64_t whole = std::max(end, next.end()) - first.offset;
      const uint64_t overlap =
          std::min(end > request.offset ? end - request.offset : 0, request.size_bytes);
      const uint64_t wanted_bytes = useful + request.size_bytes - overlap;
      const uint64_t waste = whole - wanted_bytes;
      if (!same || whole > rule_.most_bytes || waste * 1000 > wanted_bytes * rule_.waste_permille) {
        send(std::exchange(group, {}));
      } else {
        useful = wanted_bytes;
        end = std::max(end, next.end());
      }
    }
    if (group.empty()) {
      useful = request.size_bytes;
      end = next.end();
    }
    group.push_back(std::move(next));
  }
  if (!group.empty()) send(std::move(group));
}

void JoinedStore::send(std::vector<Wanted> members) {
  if (members.size() == 1) {
    Wanted& only = members.front();
    return store_->get(std::move(only.request), std::move(only.cancel), std::move(only.done));
  }
  auto group = std::make_shared<Group>();
  RangeRequest whole = members.front().request;
  uint64_t end = 0;
  for (const Wanted& member : members) end = std::max(end, member.end());
  whole.size_bytes = end - whole.offset;
  group->members = std::move(members);
  const uint64_t begin = whole.offset;
  watch(group);
  store_->get(std::move(whole), group->cancel, [group, begin](const Result<Range>& got) {
    group->over = true;
    for (Wanted& member : group->members) {
      if (!got.ok()) {
        member.done(got.status());
        continue;
      }
      runtime::Bytes view = got->bytes;
      view.data += member.request.offset - begin;
      view.size = member.request.size_bytes;
      member.done(Range{std::move(view), got->etag});
    }
    group->members.clear();
  });
}

// A joined request is withdrawn when all that wait for it are.
void JoinedStore::watch(const std::shared_ptr<Group>& group) {
  if (group->over) return;
  const bool all = std::all_of(group->members.begin(), group->members.end(),
                               [](const Wanted& member) { return member.cancel.cancelled(); });
  if (all) return group->cancel.cancel();
  store_->after(kCancelTickNs, [this, group] { watch(group); });
}

}  // namespace overlord::store
