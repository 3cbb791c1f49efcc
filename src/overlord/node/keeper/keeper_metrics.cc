#include "overlord/node/keeper/keeper_metrics.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>

#include "overlord/node/status/metrics_text.h"

namespace overlord::node {
namespace {

constexpr auto kPatience = std::chrono::seconds(1);

// Outlives whoever gives up waiting.
struct Told {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<NodeStatus> status;
};

}  // namespace

std::unique_ptr<MetricsDoor> open_metrics(const KeeperArguments& arguments,
                                          std::function<void(runtime::Task)> on_loop,
                                          std::function<NodeStatus()> status) {
  if (!arguments.metrics.asked_for()) return nullptr;
  const auto figures = [on_loop = std::move(on_loop),
                        status = std::move(status)]() -> std::optional<std::string> {
    const auto told = std::make_shared<Told>();
    on_loop([told, status] {
      NodeStatus now = status();
      const std::lock_guard lock(told->mutex);
      told->status = std::move(now);
      told->changed.notify_all();
    });
    std::unique_lock lock(told->mutex);
    if (!told->changed.wait_for(lock, kPatience, [&] { return told->status.has_value(); })) {
      return std::nullopt;
    }
    return metrics_text(*told->status);
  };
  Result<std::unique_ptr<MetricsDoor>> door =
      MetricsDoor::open(arguments.metrics, arguments.directory, figures);
  if (door.ok()) return std::move(*door);
  std::fprintf(stderr, "%s; the job goes on without\n", door.status().message().c_str());
  return nullptr;
}

}  // namespace overlord::node
