// The contract of runtime/cluster.h, held by groups of the simulated world.
#include "integration/cluster_conformance.h"

#include "overlord/sim/simulated_groups.h"

namespace overlord::runtime {
namespace cluster_conformance_test {

class SimulatedUnderTest final : public ClusterUnderTest {
 public:
  SimulatedUnderTest() : world_(7) {
    cluster_ = std::make_unique<sim::SimulatedGroups>(
        world_, [this](const GroupPlacement& group) -> sim::SimulatedLife {
          if (group.name.starts_with("stays")) return {};
          const int64_t lasts = 1 + static_cast<int64_t>(world_.dice().below(1'000'000));
          if (group.name.starts_with("ends")) return {lasts, "exit status 0", {}};
          return {lasts, "exit status 3", "cannot open a.parquet"};
        });
  }
  Cluster& cluster() override { return *cluster_; }
  bool until(const std::function<bool()>& done) override {
    return world_.run_until(done, 1'000'000);
  }
  size_t alive() override { return cluster_ ? cluster_->alive() : 0; }
  void destroy() override { cluster_.reset(); }
  bool threaded() const override { return false; }

 private:
  sim::World world_;
  std::unique_ptr<sim::SimulatedGroups> cluster_;
};

INSTANTIATE_TEST_SUITE_P(Fillings, ClusterConformance,
                         ::testing::Values(filling<SimulatedUnderTest>("simulated")),
                         [](const auto& info) { return info.param.name; });

}  // namespace cluster_conformance_test
}  // namespace overlord::runtime
