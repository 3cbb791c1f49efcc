// Roles that could live in different processes: every envelope is encoded and decoded on its way,
// and no byte of the stream changes.
#include "overlord/protocol/wire.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "overlord/sim/scenario.h"

namespace overlord::sim {
namespace wire_test {

// Both sides see the same memory at the same address.
class OneProcess final : public protocol::RegionTable {
 public:
  std::optional<protocol::MemoryRef> describe(const void* data, size_t size_bytes) override {
    ++described;
    return protocol::MemoryRef{1, reinterpret_cast<uintptr_t>(data), size_bytes};
  }
  Result<protocol::ResolvedMemory> resolve(const protocol::MemoryRef& ref) override {
    return protocol::ResolvedMemory{reinterpret_cast<const void*>(ref.offset), nullptr};
  }
  uint64_t described = 0;
};

struct Way {
  OneProcess memory;
  bool shared_memory = false;
  bool slices = false;
  protocol::DecodeContext context;
  std::deque<protocol::Message> kept;     // their memory is what the decoded ones refer to
  std::map<StepIndex, std::string> told;  // what clients are told of a plan
  std::set<size_t> kinds;
  uint64_t bytes = 0;

  // A constructor gets its bucket, and its clients what it was given to pass on.
  std::optional<uint32_t> bucket_of(const protocol::Address& to) const {
    if (!slices || to.kind != protocol::RoleKind::kConstructor) return std::nullopt;
    return to.index;
  }
  std::optional<std::string> passed_on(const protocol::Message& message) {
    if (const auto* published = std::get_if<protocol::PlanPublished>(&message)) {
      told[published->plan->step] =
          protocol::encode_plan(protocol::plan_for_clients(*published->plan));
    }
    const auto* ready = std::get_if<protocol::StepReady>(&message);
    if (!slices || ready == nullptr) return std::nullopt;
    return told.at(ready->step);
  }

  void know_views(const protocol::Envelope& envelope) {
    const auto* published = std::get_if<protocol::PlanPublished>(&envelope.message);
    if (published == nullptr || !context.plans.views.empty()) return;
    const auto views =
        protocol::decode_views(protocol::encode_views(*published->plan->layers.front().views));
    ASSERT_TRUE(views.ok());
    context.plans.views.push_back(*views);
  }

  protocol::Envelope carry(protocol::Envelope envelope) {
    know_views(envelope);
    context.regions = shared_memory ? &memory : nullptr;
    const std::optional<std::string> plan = passed_on(envelope.message);
    protocol::EncodeOptions encoding{context.regions, bucket_of(envelope.to)};
    if (plan) encoding.plan_bytes = &*plan;
    const std::string sent = protocol::encode_envelope(envelope, encoding);
    bytes += sent.size();
    kinds.insert(envelope.message.index());
    auto arrived = protocol::decode_envelope(sent, context);
    EXPECT_TRUE(arrived.ok()) << arrived.status().message();
    if (!arrived.ok()) return envelope;
    EXPECT_EQ(protocol::encode_envelope(*arrived, {context.regions, std::nullopt}), sent);
    if (shared_memory) kept.push_back(std::move(envelope.message));
    return std::move(arrived).value();
  }
};

Scenario job(bool samples) {
  Scenario scenario = Scenario::small(11);
  scenario.axes = {{"pp", 2}, {"dp", 2}, {"cp", 2}, {"tp", 2}};
  scenario.spec.align = 4;
  scenario.options.hash_batches = true;
  if (samples) {  // microbatches of their own length
    scenario.spec.strategy.has_cost = true;
    scenario.spec.strategy.cost = {
        model::CostKind::kTokens, 0, {{"tokens", 0, 1ll << 32, 0, 0, 0}}};
    scenario.spec.strategy.balance = model::BalanceMethod::kLpt;
    scenario.spec.strategy.atoms = model::Atoms::kSamples;
  }
  return scenario;
}

void expect_same_stream(bool samples, bool shared_memory, bool slices) {
  const Scenario scenario = job(samples);
  auto direct = scenario.start(1);
  ASSERT_TRUE(direct->run(8));
  Way way;
  way.shared_memory = shared_memory;
  way.slices = slices;
  way.context.plans.sources = static_cast<uint32_t>(scenario.spec.sources.size());
  auto wired = scenario.start(2);
  wired->transport().on_the_way = [&](protocol::Envelope envelope) {
    return way.carry(std::move(envelope));
  };
  ASSERT_TRUE(wired->run(8));
  EXPECT_EQ(wired->stream_hash(), direct->stream_hash());
  EXPECT_EQ(wired->consumer(0).content_chain(), direct->consumer(0).content_chain());
  EXPECT_GE(way.kinds.size(), 7u);
  EXPECT_EQ(way.memory.described > 0, shared_memory);
}

TEST(Wire, TheStreamIsTheSame) { expect_same_stream(false, false, false); }

TEST(Wire, TheStreamIsTheSameOverSharedMemory) { expect_same_stream(false, true, false); }

TEST(Wire, TheStreamIsTheSameWhereReceiversGetWhatTheyNeedOfAPlan) {
  expect_same_stream(false, false, true);
}

TEST(Wire, TheStreamIsTheSameForMicrobatchesOfTheirOwnLength) {
  expect_same_stream(true, false, false);
  expect_same_stream(true, true, true);
}

}  // namespace wire_test
}  // namespace overlord::sim
