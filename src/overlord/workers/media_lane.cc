#include "overlord/workers/media_lane.h"

#include <algorithm>
#include <utility>

namespace overlord::workers {
namespace {

using runtime::TransformedRows;

// Of one call; a larger item goes alone. A seat holds twice as much.
constexpr uint64_t kMostCallBytes = uint64_t{32} << 20;

}  // namespace

Result<std::unique_ptr<MediaLane>> MediaLane::make(TransformPoolOptions options) {
  std::unique_ptr<MediaLane> lane(new MediaLane(options.workers, options.batch_rows));
  options.items = true;
  options.make_runner = [make = std::move(options.make_runner), tickets = lane->tickets_] {
    return std::make_unique<MediaSeat>(make(), tickets);
  };
  OVERLORD_TRY(lane->pool_, TransformPool::make(std::move(options)));
  return lane;
}

MediaLane::MediaLane(size_t seats, size_t most_items) : seats_(seats), most_items_(most_items) {}

MediaLane::~MediaLane() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  // Not reset(): a call that ends just now may ask for the next, and finds the pool.
  if (pool_ != nullptr) pool_->end();
  for (Waiting& one : waiting_) one.done(Status(Code::kCancelled, "the media lane has ended"));
}

void MediaLane::apply(runtime::FunctionItem item, runtime::CancelToken cancel,
                      runtime::FunctionDone done) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::make_shared<const runtime::FunctionItem>(std::move(item)),
                        std::move(cancel), std::move(done)});
  }
  start_calls();
}

// What waits is shared out evenly.
MediaLane::Call MediaLane::next_call(Call* settled) {
  Call call;
  const size_t share = (waiting_.size() + seats_ - 1) / seats_;
  const size_t most = std::min(share, most_items_);
  uint64_t bytes = 0;
  while (!waiting_.empty() && call.size() < most) {
    Waiting& first = waiting_.front();
    if (first.cancel.cancelled() || bad_.contains(first.item->key)) {
      settled->push_back(std::move(first));
      waiting_.pop_front();
      continue;
    }
    bytes += first.item->given.size;
    if (!call.empty() && bytes > kMostCallBytes) break;
    call.push_back(std::move(first));
    waiting_.pop_front();
  }
  return call;
}

void MediaLane::settle(Waiting& one) {
  if (one.cancel.cancelled()) return one.done(Status(Code::kCancelled, "it was cancelled"));
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    reason = bad_.at(one.item->key);
  }
  one.done(bad_data(reason));
}

// As many calls as there are seats.
void MediaLane::start_calls() {
  while (true) {
    auto call = std::make_shared<Call>();
    Call settled;
    {
      const std::lock_guard lock(mutex_);
      if (closing_ || calls_ >= seats_ || waiting_.empty()) return;
      *call = next_call(&settled);
      if (!call->empty()) ++calls_;
    }
    for (Waiting& one : settled) settle(one);
    if (call->empty()) continue;
    runtime::TextRows rows;
    for (Waiting& one : *call) {
      one.ticket = tickets_->add(one.item);
      rows.bytes += one.ticket;
      rows.ends.push_back(rows.bytes.size());
    }
    pool_->apply(std::move(rows), runtime::CancelToken(),
                 [this, call](Result<TransformedRows> got) { finish(*call, std::move(got)); });
  }
}

void MediaLane::finish(Call& call, Result<TransformedRows> got) {
  for (const Waiting& one : call) tickets_->remove(one.ticket);
  {
    const std::lock_guard lock(mutex_);
    --calls_;
    if (got.ok()) {
      for (const model::BadRow& bad : got->bad) bad_.emplace(call[bad.index].item->key, bad.reason);
    }
  }
  start_calls();
  if (!got.ok()) {
    for (Waiting& one : call) one.done(got.status());
    return;
  }
  const int64_t each_ns = got->elapsed_ns / static_cast<int64_t>(call.size());
  auto bad = got->bad.begin();
  for (size_t i = 0; i < call.size(); ++i) {
    if (bad != got->bad.end() && bad->index == i) {
      call[i].done(bad_data((bad++)->reason));
    } else {
      call[i].done(each_ns);
    }
  }
}

}  // namespace overlord::workers
