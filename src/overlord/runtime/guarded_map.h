// GuardedMap: a small map that several threads read and change. Values are handed out as copies, so
// make them cheap to copy, or shared pointers.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>

namespace overlord::runtime {

template <typename Key, typename Value>
class GuardedMap {
 public:
  GuardedMap() = default;
  explicit GuardedMap(std::map<Key, Value> values) : values_(std::move(values)) {}

  std::optional<Value> find(const Key& key) const {
    const std::shared_lock lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }
  void put(const Key& key, Value value) {
    const std::unique_lock lock(mutex_);
    values_.insert_or_assign(key, std::move(value));
  }
  // The value, which is in the map no more; nothing where there was none.
  std::optional<Value> take(const Key& key) {
    const std::unique_lock lock(mutex_);
    auto found = values_.extract(key);
    if (!found) return std::nullopt;
    return std::move(found.mapped());
  }
  std::map<Key, Value> copy() const {
    const std::shared_lock lock(mutex_);
    return values_;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<Key, Value> values_;
};

}  // namespace overlord::runtime
