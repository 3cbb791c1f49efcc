// What a node does, as Prometheus text (version 0.0.4): for its own door of metrics and for
// `overlord top --metrics`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "overlord/node/status/status_codec.h"

namespace overlord::node {

inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

// Collects figures, and writes them with help and type, each name once, in the order of first
// mention.
class MetricText {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;
  enum class Kind : uint8_t { kCounter, kGauge };

  explicit MetricText(Labels everywhere = {}) : everywhere_(std::move(everywhere)) {}

  void add(const std::string& name, Kind kind, std::string_view told, uint64_t value,
           const Labels& labels = {});
  void add_seconds(const std::string& name, std::string_view told, uint64_t ns,
                   const Labels& labels = {});
  std::string text() const;

 private:
  struct Family {
    std::string head, samples;
  };
  void add_text(const std::string& name, Kind kind, std::string_view told, const std::string& value,
                const Labels& labels);

  const Labels everywhere_;
  std::vector<Family> families_;
  std::map<std::string, size_t> known_;
};

// Memory of processes is read as it is now, where this process may.
std::string metrics_text(const NodeStatus& status);

}  // namespace overlord::node
