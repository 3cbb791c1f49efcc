// MediaSeat: where a call of a media lane meets the user's function. What a TransformPool deals out
// are tickets; the seat lays the items behind them into shared memory, has the call made by a
// worker process or a thread of Python, and takes what was made back. Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/runtime/media_function.h"
#include "overlord/workers/item_slab.h"
#include "overlord/workers/transform_runner.h"

namespace overlord::workers {

// Items on their way through a lane, by ticket. Thread-safe.
class ItemTickets {
 public:
  using ItemPtr = std::shared_ptr<const runtime::FunctionItem>;

  std::string add(ItemPtr item);
  ItemPtr find(std::string_view ticket) const;
  void remove(std::string_view ticket);

 private:
  mutable std::mutex mutex_;
  uint64_t given_ OVERLORD_GUARDED_BY(mutex_) = 0;
  std::map<std::string, ItemPtr, std::less<>> items_ OVERLORD_GUARDED_BY(mutex_);
};

class MediaSeat final : public TransformRunner {
 public:
  // `caller` speaks to the function; it is told in JSON where each item lies, see
  // python/overlord/_workers/media_items.py.
  MediaSeat(std::unique_ptr<TransformRunner> caller, std::shared_ptr<const ItemTickets> tickets)
      : caller_(std::move(caller)), tickets_(std::move(tickets)) {}

  Status ready() override { return caller_->ready(); }
  // A ticket whose item went well is answered by the digest of what was made, which now lies in the
  // item.
  Result<TransformAnswer> run(const runtime::TextRows& tickets) override;

 private:
  struct Laid {  // one item in the slab
    ItemTickets::ItemPtr item;
    uint64_t given_at = 0;
    uint64_t made_at = 0;
  };

  Result<std::vector<Laid>> lay(const runtime::TextRows& tickets);
  runtime::TextRows told(const std::vector<Laid>& laid) const;
  Result<TransformAnswer> take(const std::vector<Laid>& laid, const TransformAnswer& answer) const;

  std::unique_ptr<TransformRunner> caller_;
  std::shared_ptr<const ItemTickets> tickets_;
  std::unique_ptr<ItemSlab> slab_;
};

}  // namespace overlord::workers
