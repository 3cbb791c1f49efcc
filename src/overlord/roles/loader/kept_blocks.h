// KeptBlocks: decoded blocks of a loader that are still there, as long as the host's budget has
// room. What was used longest ago goes first; it can be read again (law 11). Of one role's loop.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/roles/loader/probe.h"
#include "overlord/roles/loader/role.h"

namespace overlord::loader {

template <typename BlockPtr>
class KeptBlocks {
 public:
  KeptBlocks(std::shared_ptr<PayloadBudget> budget, LoaderProbe* probe)
      : budget_(std::move(budget)), probe_(probe) {}
  ~KeptBlocks() {
    for (const auto& [block, kept] : kept_) budget_->used_bytes -= kept.size_bytes;
  }
  KeptBlocks(const KeptBlocks&) = delete;
  KeptBlocks& operator=(const KeptBlocks&) = delete;

  bool contains(uint32_t block) const { return kept_.contains(block); }
  // Null: it is not kept. Else it is the most recently used one now.
  BlockPtr use(uint32_t block) {
    const auto found = kept_.find(block);
    if (found == kept_.end()) return nullptr;
    ++probe_->cache_hits;
    found->second.used = true;
    recent_.splice(recent_.begin(), recent_, found->second.recent);
    return found->second.value;
  }
  // False: others hold so much of the budget that it found no room.
  bool keep(uint32_t block, BlockPtr value, uint64_t size_bytes) {
    if (size_bytes > budget_->limit_bytes) return true;
    const auto too_much = [&] {
      return budget_->used_bytes.load() + size_bytes > budget_->limit_bytes;
    };
    while (too_much() && !recent_.empty()) forget(kept_.find(recent_.back()));
    if (too_much()) return false;
    OVERLORD_CHECK(!kept_.contains(block), "a block is kept once");
    budget_->used_bytes += size_bytes;
    probe_->buffer.take(size_bytes);
    recent_.push_front(block);
    kept_[block] = {std::move(value), size_bytes, true, recent_.begin()};
    OVERLORD_CHECK(recent_.size() == kept_.size(), "what is kept has its turn");
    return true;
  }
  // Drops what nobody has used since the last call.
  void shed() {
    for (auto it = kept_.begin(); it != kept_.end();) {
      const auto current = it++;
      if (!std::exchange(current->second.used, false)) forget(current);
    }
  }
  void keep_only(const std::set<uint32_t>& blocks) {
    for (auto it = kept_.begin(); it != kept_.end();) {
      const auto current = it++;
      if (!blocks.contains(current->first)) forget(current);
    }
  }
  void clear() {
    while (!kept_.empty()) forget(kept_.begin());
  }

 private:
  struct Kept {
    BlockPtr value;
    uint64_t size_bytes = 0;
    bool used = true;  // since the last shed()
    std::list<uint32_t>::iterator recent;
  };

  void forget(typename std::map<uint32_t, Kept>::iterator kept) {
    OVERLORD_CHECK(kept != kept_.end() && budget_->used_bytes >= kept->second.size_bytes,
                   "what is forgotten was kept");
    budget_->used_bytes -= kept->second.size_bytes;
    probe_->buffer.let_go(kept->second.size_bytes);
    recent_.erase(kept->second.recent);
    kept_.erase(kept);
  }

  std::shared_ptr<PayloadBudget> budget_;
  LoaderProbe* probe_;
  std::map<uint32_t, Kept> kept_;
  std::list<uint32_t> recent_;  // most recently used first
};

}  // namespace overlord::loader
