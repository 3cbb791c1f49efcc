// What a node says of its processes travels whole, and what several say adds up.
#include "overlord/node/status/status_codec.h"

#include <gtest/gtest.h>

namespace overlord::node {
namespace {

EngineStatus status_of_bucket(uint32_t bucket, uint64_t ready) {
  EngineStatus out;
  ConstructorStatus constructor;
  constructor.bucket = bucket;
  constructor.counts.steps_ready = ready;
  out.constructors.push_back(constructor);
  out.queue_depth = 1;
  return out;
}

TEST(StatusCodec, ANodesStatusTravelsWhole) {
  NodeStatus told;
  told.engine = status_of_bucket(3, 4);
  told.engine.planner.waits_for_function = FunctionWait{"cost", 5, 6, 7};
  told.job = "job";
  told.attempt = 2;
  told.serving = true;
  told.processes.push_back({"loaders-0", 11, 2, 1, true, 4, "joined-a@1", "spare"});
  told.hosts.push_back({"joined-a@1", false, {8, 1 << 30, true}, 1, false});
  told.decoding.push_back({"pairs", true, "few bytes"});
  told.missing = {1};
  told.gone = {2, 3};
  told.waits = "rank 2 is gone";
  const auto heard = decode_node_status(encode_node_status(told));
  ASSERT_TRUE(heard.ok()) << heard.status().message();
  EXPECT_EQ(encode_node_status(*heard), encode_node_status(told));
  EXPECT_EQ(heard->engine.constructors[0].counts.steps_ready, 4u);
  EXPECT_EQ(heard->engine.planner.waits_for_function->function, "cost");
  EXPECT_EQ(heard->processes[0].restarts, 1u);
  EXPECT_EQ(heard->processes[0].host, "joined-a@1");
  EXPECT_EQ(heard->hosts[0].gives.memory_bytes, 1u << 30);
  EXPECT_TRUE(heard->decoding[0].packs);
  EXPECT_EQ(heard->gone, (std::vector<Rank>{2, 3}));
  EXPECT_EQ(heard->waits, "rank 2 is gone");
}

TEST(StatusCodec, RefusesBytesThatAreNone) {
  const std::string node = encode_node_status({});
  const std::string engine = encode_engine_status(status_of_bucket(0, 1));
  for (const std::string& bytes : {std::string(), node.substr(0, node.size() - 1), node + "x"}) {
    const Status refused = decode_node_status(bytes).status();
    EXPECT_EQ(refused.code(), Code::kBadData);
    EXPECT_NE(refused.message().find("status of a node"), std::string::npos) << refused.message();
  }
  const Status refused = decode_engine_status(engine.substr(1)).status();
  EXPECT_NE(refused.message().find("status of a process"), std::string::npos) << refused.message();
}

TEST(StatusCodec, AGroupIsOneLineHoweverManyMakeItsSteps) {
  EngineStatus whole = status_of_bucket(3, 10);
  merge_status(status_of_bucket(3, 5), &whole);  // while its mesh changes
  merge_status(status_of_bucket(4, 2), &whole);
  ASSERT_EQ(whole.constructors.size(), 2u);
  EXPECT_EQ(whole.constructors[0].bucket, 3u) << "its number is no count";
  EXPECT_EQ(whole.constructors[0].counts.steps_ready, 15u);
  EXPECT_EQ(whole.constructors[1].counts.steps_ready, 2u);
  EXPECT_EQ(whole.queue_depth, 3u);
}

TEST(StatusCodec, LoadersAndRanksStandForThemselvesAndSourcesAddUp) {
  EngineStatus part;
  part.loaders.resize(1);
  part.loaders[0].source = "s";
  part.clients.resize(1);
  part.unpacking.push_back({"s", {1, 2, 3, 4}, 5, 6});
  part.planner.counts.plans = 7;
  part.memory.pool_held_bytes = 8;
  EngineStatus whole;
  merge_status(part, &whole);
  merge_status(part, &whole);
  EXPECT_EQ(whole.loaders.size(), 2u);
  EXPECT_EQ(whole.clients.size(), 2u);
  ASSERT_EQ(whole.unpacking.size(), 1u);
  EXPECT_EQ(whole.unpacking[0].source, "s");
  EXPECT_EQ(whole.unpacking[0].counts.out_bytes, 8u);
  EXPECT_EQ(whole.unpacking[0].peak_bytes, 12u);
  EXPECT_EQ(whole.planner.counts.plans, 14u);
  EXPECT_EQ(whole.memory.pool_held_bytes, 16u);
}

}  // namespace
}  // namespace overlord::node
