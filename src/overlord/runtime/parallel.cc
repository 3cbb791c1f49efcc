#include "overlord/runtime/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace overlord::runtime {

void for_each_parallel(uint32_t threads, size_t count, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::thread> others;
  const size_t wanted = std::min<size_t>(threads, count);
  for (size_t i = 1; i < wanted; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

}  // namespace overlord::runtime
