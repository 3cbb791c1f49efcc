// MediaLane: a user's function over the items of one media field, in several seats at once. Items
// that wait are given to a seat together, so lists grow with the load; what a call costs that
// kills, hangs or raises is the TransformPool's business. Owned by the node. It never blocks
// apply(), calls back exactly once, perhaps before apply() returns, and leaves nothing behind.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/media_function.h"
#include "overlord/workers/media_seat.h"
#include "overlord/workers/transform_pool.h"

namespace overlord::workers {

class MediaLane final : public runtime::MediaFunction {
 public:
  // `options` as for rows of text: its runners speak to the function.
  static Result<std::unique_ptr<MediaLane>> make(TransformPoolOptions options);
  // Everything not yet answered is answered with kCancelled. Not from a callback.
  ~MediaLane() override;

  void apply(runtime::FunctionItem item, runtime::CancelToken cancel,
             runtime::FunctionDone done) override;

  TransformPoolStats stats() const { return pool_->stats(); }

 private:
  struct Waiting {
    ItemTickets::ItemPtr item;
    runtime::CancelToken cancel;
    runtime::FunctionDone done;
    std::string ticket = {};
  };
  using Call = std::vector<Waiting>;

  explicit MediaLane(size_t seats, size_t most_items);
  void start_calls();
  // Under the mutex. `settled`: those on the way that need no call any more.
  Call next_call(Call* settled) OVERLORD_REQUIRES(mutex_);
  void settle(Waiting& one);
  void finish(Call& call, Result<runtime::TransformedRows> got);

  const size_t seats_;
  const size_t most_items_;
  const std::shared_ptr<ItemTickets> tickets_ = std::make_shared<ItemTickets>();
  std::mutex mutex_;
  std::deque<Waiting> waiting_ OVERLORD_GUARDED_BY(mutex_);
  size_t calls_ OVERLORD_GUARDED_BY(mutex_) = 0;  // that have not come back
  bool closing_ OVERLORD_GUARDED_BY(mutex_) = false;
  // By key: what was decided once stays so, also when the sample is read again.
  std::map<uint64_t, std::string> bad_ OVERLORD_GUARDED_BY(mutex_);
  std::unique_ptr<TransformPool> pool_;
};

}  // namespace overlord::workers
