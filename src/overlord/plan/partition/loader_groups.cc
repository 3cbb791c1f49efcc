#include "overlord/plan/partition/loader_groups.h"

#include <algorithm>
#include <optional>

#include "overlord/base/check.h"

namespace overlord::plan {
namespace {

// Of what all cost: nobody beside it gets much done where it is.
constexpr uint64_t kHeavyMilli = 500;

std::string named(const std::vector<model::Source>& sources, const LoaderGroup& group) {
  std::string out = group.sources.size() == 1 ? "source " : "sources ";
  for (size_t i = 0; i < group.sources.size(); ++i) {
    out += (i == 0 ? "" : ", ") + sources[group.sources[i]].name;
  }
  return out;
}

std::string processes_text(uint32_t processes) {
  return processes == 1 ? "a process" : std::to_string(processes) + " processes";
}

// The list that names it.
std::optional<size_t> declared_for(const GroupingRule& rule, const std::string& name) {
  for (size_t i = 0; i < rule.isolated.size(); ++i) {
    const std::vector<std::string>& list = rule.isolated[i];
    if (std::find(list.begin(), list.end(), name) != list.end()) return i;
  }
  return std::nullopt;
}

// Thousandths of what all cost; 0 unless every source is measured.
uint64_t part_milli(const std::vector<model::Source>& sources, SourceIndex source) {
  uint64_t all = 0;
  for (const model::Source& one : sources) {
    if (one.measured.millicores() == 0) return 0;
    all += one.measured.millicores();
  }
  return sources[source].measured.millicores() * 1000 / std::max<uint64_t>(1, all);
}

class Grouping {
 public:
  Grouping(const std::vector<model::Source>& sources, const GroupingRule& rule)
      : sources_(sources), rule_(rule) {}

  std::vector<LoaderGroup> make() {
    declared();
    if (rule_.by_rule) {
      heavy();
      python();
    }
    std::stable_sort(apart_.begin(), apart_.end(), [](const LoaderGroup& a, const LoaderGroup& b) {
      return a.sources.front() < b.sources.front();
    });
    if (!light_.empty()) {
      const auto count = light_.size();
      apart_.insert(apart_.begin(),
                    {std::move(light_), left_,
                     std::to_string(count) + (count == 1 ? " source has " : " sources share ") +
                         std::to_string(left_) + (left_ == 1 ? " process" : " processes"),
                     false});
    }
    return std::move(apart_);
  }

 private:
  void declared() {
    std::vector<LoaderGroup> groups(rule_.isolated.size());
    for (SourceIndex s = 0; s < sources_.size(); ++s) {
      const auto list = declared_for(rule_, sources_[s].name);
      (list ? groups[*list].sources : light_).push_back(s);
    }
    for (LoaderGroup& group : groups) {
      if (group.sources.empty()) continue;
      group.reason = named(sources_, group) + ": a process of its own, as declared";
      apart_.push_back(std::move(group));
    }
  }

  void heavy() {
    const auto found = std::find_if(light_.begin(), light_.end(), [&](SourceIndex s) {
      return part_milli(sources_, s) >= kHeavyMilli;
    });
    if (found == light_.end() || light_.size() == 1 || left_ == 1) return;
    const uint64_t part = part_milli(sources_, *found);
    const auto share = static_cast<uint32_t>((part * left_ + 500) / 1000);
    const uint32_t most = std::min(left_ - 1, std::max(1u, sources_[*found].slots()));
    LoaderGroup group{{*found}, std::clamp(share, 1u, most)};
    group.reason = named(sources_, group) + ": " + processes_text(group.processes) +
                   " of its own, since it costs " + std::to_string(part / 10) +
                   "% of what all do, by the profiles of the run before";
    left_ -= group.processes;
    light_.erase(found);
    apart_.push_back(std::move(group));
  }

  void python() {
    LoaderGroup group;
    std::vector<SourceIndex> others;
    for (const SourceIndex s : light_) {
      (runs_python(sources_[s]) ? group.sources : others).push_back(s);
    }
    if (group.sources.empty() || others.empty()) return;
    group.reason =
        named(sources_, group) + ": a process apart from the others, for a user's Python";
    light_ = std::move(others);
    apart_.push_back(std::move(group));
  }

  const std::vector<model::Source>& sources_;
  const GroupingRule& rule_;
  std::vector<SourceIndex> light_;
  uint32_t left_ = std::max(1u, rule_.processes);
  std::vector<LoaderGroup> apart_;
};

}  // namespace

bool runs_python(const model::Source& source) {
  return source.transform.declared() ||
         std::any_of(source.media.begin(), source.media.end(), [](const model::MediaField& field) {
           return field.use && field.use->function.declared();
         });
}

std::vector<LoaderGroup> loader_groups(const std::vector<model::Source>& sources,
                                       const GroupingRule& rule) {
  std::vector<LoaderGroup> groups = Grouping(sources, rule).make();
  size_t dealt = 0;
  for (const LoaderGroup& group : groups) dealt += group.sources.size();
  OVERLORD_CHECK(dealt == sources.size(), "every source is in one group");
  return groups;
}

}  // namespace overlord::plan
