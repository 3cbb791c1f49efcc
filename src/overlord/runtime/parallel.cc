#include "overlord/runtime/parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
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
  try {
    for (size_t i = 1; i < wanted; ++i) others.emplace_back(work);
  } catch (const std::system_error&) {  // the threads there are do it all
  }
  work();
  for (std::thread& other : others) other.join();
}

}  // namespace overlord::runtime
