// Two carriers joined by links in memory: what arrives, who holds it, what a death ends.
#include "overlord/transport/carrier.h"

#include <gtest/gtest.h>

#include <deque>

namespace overlord::transport {
namespace {

using protocol::Address;
using protocol::Envelope;

const Address kLoader = protocol::loader_address(0, 0);
const Address kConstructor = protocol::constructor_address(0);

struct Frame {
  std::string bytes;
  std::vector<runtime::Descriptor> descriptors;
};

// Frames pile up until the test moves them, so that nothing depends on threads.
class PiledLink final : public Link {
 public:
  using Link::send;
  void send(std::string frame, std::vector<runtime::Descriptor> descriptors) override {
    if (!closed) frames.push_back({std::move(frame), std::move(descriptors)});
  }
  void close() override { closed = true; }

  std::deque<Frame> frames;
  bool closed = false;
};

std::shared_ptr<const model::ViewTable> one_view() {
  static const auto table = [] {
    auto made = std::make_shared<model::ViewTable>();
    made->by_rank.resize(1);
    return std::shared_ptr<const model::ViewTable>(std::move(made));
  }();
  return table;
}

struct Side {
  std::string name;
  std::shared_ptr<SharedPool> pool;
  std::vector<Envelope> got;
  std::vector<std::string> nonsense;
  std::unique_ptr<Carrier> carrier;
  std::shared_ptr<PiledLink> out;  // to the other side

  Side(std::string called, Address role) : name(std::move(called)) {
    pool = SharedPool::make({name, 1 << 20, 64 << 20, true}).value();
    CarrierOptions options;
    options.name = name;
    options.pool = pool;
    options.plans.views = {one_view()};
    options.plans.sources = 1;
    options.deliver = [this](Envelope envelope) { got.push_back(std::move(envelope)); };
    options.nonsense = [this](const std::string& peer, const Status&) { nonsense.push_back(peer); };
    carrier = std::make_unique<Carrier>(options);
    carrier->host({role});
  }
};

class CarrierTest : public testing::Test {
 protected:
  CarrierTest() : loader_("loaders-0", kLoader), constructor_("constructors-0", kConstructor) {
    connect();
  }

  void connect(uint32_t generation = 1, bool remote = false) {
    loader_.out = std::make_shared<PiledLink>();
    constructor_.out = std::make_shared<PiledLink>();
    protocol::Hello from_loader;
    from_loader.name = loader_.name;
    from_loader.generation = generation;
    from_loader.roles = {kLoader};
    protocol::Hello from_constructor;
    from_constructor.name = constructor_.name;
    from_constructor.roles = {kConstructor};
    constructor_.carrier->connect(from_loader, constructor_.out, remote);
    loader_.carrier->connect(from_constructor, loader_.out, remote);
  }

  // Moves all frames, both ways, until none is left.
  void move() {
    while (!loader_.out->frames.empty() || !constructor_.out->frames.empty()) {
      pass(loader_, constructor_);
      pass(constructor_, loader_);
    }
  }
  static void pass(Side& from, Side& to) {
    while (!from.out->frames.empty()) {
      Frame frame = std::move(from.out->frames.front());
      from.out->frames.pop_front();
      to.carrier->receive(from.name, to.out.get(), frame.bytes, std::move(frame.descriptors));
    }
  }

  // A payload of one document in the loader's pool.
  Envelope payload(StepIndex step, size_t tokens = 1000) {
    const runtime::Buffer buffer = loader_.pool->buffers()->acquire(tokens * 4);
    auto* values = reinterpret_cast<int32_t*>(buffer.data.get());
    for (size_t i = 0; i < tokens; ++i) values[i] = static_cast<int32_t>(step * 1000 + i);
    auto out = std::make_shared<protocol::Payload>();
    out->step = step;
    out->ordinals = {0};
    out->spans = {{values, nullptr, static_cast<uint32_t>(tokens), model::Element::kI32}};
    out->holders = {buffer.data};
    return {{}, kLoader, kConstructor, protocol::PayloadPtr(std::move(out))};
  }
  static const protocol::Payload& payload_of(const Envelope& envelope) {
    return *std::get<protocol::PayloadPtr>(envelope.message);
  }

  // A plan with a state of some size, and a step of it without any microbatch.
  static model::PlanPtr plan(StepIndex step) {
    auto made = std::make_shared<model::Plan>();
    made->step = step;
    made->layers.resize(1);
    made->layers[0].views = one_view();
    made->delays.assign(1000, 7);
    auto state = std::make_shared<model::StreamState>();
    state->cursors.resize(1);
    state->next_step = step + 1;
    made->state_after = std::move(state);
    return made;
  }
  static Envelope publication(const model::PlanPtr& plan, const Address& constructor) {
    const auto index = model::PlanIndex::make(*plan, 1);
    return {{}, kLoader, constructor, protocol::PlanPublished{plan, index}};
  }
  static Envelope ready(const model::PlanPtr& plan) {
    return {{}, kConstructor, kLoader, protocol::StepReady{plan->step, plan, {}}};
  }
  static const model::PlanPtr& plan_of(const Envelope& envelope) {
    return std::get<protocol::StepReady>(envelope.message).plan;
  }

  Side loader_;
  Side constructor_;
};

TEST_F(CarrierTest, BulkBytesAreSharedNotSent) {
  loader_.carrier->send(payload(7, 100'000));
  move();
  ASSERT_EQ(constructor_.got.size(), 1u);
  const protocol::Payload& got = payload_of(constructor_.got[0]);
  const auto* values = static_cast<const int32_t*>(got.spans[0].data);
  EXPECT_EQ(values[0], 7000);
  EXPECT_EQ(values[99'999], 7000 + 99'999);
  const CarrierStats stats = loader_.carrier->stats();
  EXPECT_EQ(stats.inline_bytes, 0u);
  EXPECT_LT(stats.bytes_sent, 2000u) << "400 kB of tokens do not travel";
  EXPECT_EQ(stats.leases.leases, 1u);
}

TEST_F(CarrierTest, ALeaseEndsWithTheLastView) {
  loader_.carrier->send(payload(1));
  move();
  const std::shared_ptr<const void> kept = payload_of(constructor_.got[0]).holders.at(0);
  constructor_.got.clear();
  move();
  EXPECT_EQ(loader_.carrier->stats().leases.leases, 1u) << "a view is still held";
  const_cast<std::shared_ptr<const void>&>(kept).reset();
  move();
  EXPECT_EQ(loader_.carrier->stats().leases.leases, 0u);
  EXPECT_EQ(loader_.pool->stats().held_bytes, 0u);
}

TEST_F(CarrierTest, ADeadReceiverHoldsNothing) {
  for (StepIndex step = 0; step < 10; ++step) loader_.carrier->send(payload(step));
  move();
  EXPECT_EQ(loader_.carrier->stats().leases.leases, 10u);
  EXPECT_TRUE(loader_.carrier->disconnect(constructor_.name, loader_.out.get()));
  EXPECT_EQ(loader_.carrier->stats().leases.leases, 0u);
  EXPECT_EQ(loader_.pool->stats().held_bytes, 0u);
}

TEST_F(CarrierTest, ViewsOutliveTheirOwner) {
  loader_.carrier->send(payload(3));
  move();
  loader_.carrier.reset();
  loader_.pool.reset();
  const auto* values = static_cast<const int32_t*>(payload_of(constructor_.got[0]).spans[0].data);
  EXPECT_EQ(values[999], 3999);
}

TEST_F(CarrierTest, WaitsForAProcessThatIsNotConnected) {
  loader_.carrier->disconnect(constructor_.name, loader_.out.get());
  loader_.carrier->send(payload(1));
  loader_.carrier->send(payload(2));
  EXPECT_TRUE(loader_.out->frames.empty());
  connect();
  move();
  ASSERT_EQ(constructor_.got.size(), 2u);
  EXPECT_EQ(payload_of(constructor_.got[0]).step, 1u);
  EXPECT_EQ(payload_of(constructor_.got[1]).step, 2u);
}

TEST_F(CarrierTest, OneThatIsForgottenMayComeInAnyGeneration) {
  loader_.carrier->set_roster({{{constructor_.name, 5, {}}}});
  loader_.carrier->forget(constructor_.name);
  EXPECT_FALSE(loader_.carrier->connected(constructor_.name));
  protocol::Hello hello;
  hello.name = constructor_.name;
  loader_.carrier->connect(hello, loader_.out);
  EXPECT_TRUE(loader_.carrier->connected(constructor_.name));
}

TEST_F(CarrierTest, WhatWaitedForADeadProcessIsNotForTheNext) {
  loader_.carrier->set_roster({{{constructor_.name, 1, {kConstructor}}}});
  loader_.carrier->disconnect(constructor_.name, loader_.out.get());
  loader_.carrier->send(payload(1));
  loader_.carrier->set_roster({{{constructor_.name, 2, {kConstructor}}}});
  loader_.carrier->send(payload(2));
  loader_.out = std::make_shared<PiledLink>();
  protocol::Hello hello;
  hello.name = constructor_.name;
  hello.generation = 2;
  loader_.carrier->connect(hello, loader_.out);
  pass(loader_, constructor_);
  ASSERT_EQ(constructor_.got.size(), 1u);
  EXPECT_EQ(payload_of(constructor_.got[0]).step, 2u);
}

// A planner publishes as soon as loaders have posted; where another host's constructors live its
// node may tell later.
TEST_F(CarrierTest, WhatIsSentBeforeARolesHomeIsKnownWaitsForIt) {
  const Address far = protocol::constructor_address(1), farther = protocol::constructor_address(2);
  for (StepIndex step = 0; step < 3; ++step) {
    loader_.carrier->send({{}, kLoader, far, protocol::Fetch{step, 0}});
    loader_.carrier->send({{}, kLoader, farther, protocol::Fetch{step, 0}});
  }
  loader_.carrier->set_roster({{{constructor_.name, 1, {far}}}});
  loader_.carrier->send({{}, kLoader, far, protocol::Fetch{3, 0}});
  EXPECT_EQ(loader_.out->frames.size(), 4u) << "told by the roster";

  protocol::Hello hello;
  hello.name = constructor_.name;
  hello.roles = {kConstructor, far, farther};
  pass(loader_, constructor_);
  loader_.out = std::make_shared<PiledLink>();
  loader_.carrier->connect(hello, loader_.out);
  EXPECT_EQ(loader_.out->frames.size(), 3u) << "told by the greeting";
  pass(loader_, constructor_);
  ASSERT_EQ(constructor_.got.size(), 7u);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(constructor_.got[i].to, i < 4 ? far : farther);
    EXPECT_EQ(std::get<protocol::Fetch>(constructor_.got[i].message).step, i < 4 ? i : i - 4);
  }
}

TEST_F(CarrierTest, ALateGreetingOfTheDeadIsNotHeard) {
  loader_.carrier->set_roster({{{constructor_.name, 3, {kConstructor}}}});
  auto late = std::make_shared<PiledLink>();
  protocol::Hello hello;
  hello.name = constructor_.name;
  hello.generation = 2;
  loader_.carrier->connect(hello, late);
  EXPECT_TRUE(late->closed);
}

// The loader's slot lives in two processes: the second stands by, until a roster says otherwise.
TEST_F(CarrierTest, ASlotWithSeveralHomesHasOneThatIsActive) {
  auto standby = std::make_shared<PiledLink>();
  protocol::Roster roster;
  roster.processes = {{"loaders-0", 1, {kLoader}}, {"loaders-1", 1, {}, "", 0, {kLoader}}};
  constructor_.carrier->set_roster(roster);
  protocol::Hello hello;
  hello.name = "loaders-1";
  hello.roles = {kLoader};
  constructor_.carrier->connect(hello, standby);

  constructor_.carrier->send({{}, kConstructor, kLoader, protocol::Fetch{3, 0}});
  EXPECT_EQ(constructor_.out->frames.size(), 1u);
  EXPECT_TRUE(standby->frames.empty()) << "only the active one answers, whatever the other says";
  constructor_.carrier->send({{}, kConstructor, kLoader, protocol::MetaGrant{5, 0}});
  EXPECT_EQ(constructor_.out->frames.size(), 2u);
  EXPECT_EQ(standby->frames.size(), 1u) << "it hears what it will need";
  move();
  EXPECT_EQ(loader_.got.size(), 2u);

  roster.processes = {{"loaders-1", 1, {kLoader}}, {"loaders-0", 1, {}, "", 0, {kLoader}}};
  constructor_.carrier->set_roster(roster);
  constructor_.carrier->send({{}, kConstructor, kLoader, protocol::Fetch{4, 0}});
  EXPECT_TRUE(constructor_.out->frames.empty());
  EXPECT_EQ(standby->frames.size(), 2u);
}

TEST_F(CarrierTest, AllClientsOfAProcessShareThePlanOfAStep) {
  const model::PlanPtr first = plan(3), second = plan(4);
  for (int client = 0; client < 100; ++client) {
    constructor_.carrier->send(ready(first));
    constructor_.carrier->send(ready(second));
  }
  EXPECT_LT(constructor_.carrier->stats().bytes_sent, 2 * 4000u + 200 * 100u)
      << "a plan of 4 kB travels once, not a hundred times";
  move();
  ASSERT_EQ(loader_.got.size(), 200u);
  for (size_t i = 2; i < loader_.got.size(); ++i) {
    EXPECT_EQ(plan_of(loader_.got[i]), plan_of(loader_.got[i % 2]));
  }
  EXPECT_EQ(plan_of(loader_.got[0])->delays, first->delays);
  EXPECT_EQ(plan_of(loader_.got[1])->step, 4u);
}

TEST_F(CarrierTest, TheStateOfAPlanPassesThroughConstructorsToClients) {
  const model::PlanPtr made = plan(3);
  loader_.carrier->send(publication(made, kConstructor));
  move();
  ASSERT_EQ(constructor_.got.size(), 1u);
  const auto& published = std::get<protocol::PlanPublished>(constructor_.got[0].message);
  EXPECT_EQ(published.plan->state_after, nullptr) << "nobody there needs it";
  constructor_.carrier->send(ready(published.plan));
  move();
  ASSERT_EQ(loader_.got.size(), 1u);
  ASSERT_NE(plan_of(loader_.got[0])->state_after, nullptr);
  EXPECT_EQ(plan_of(loader_.got[0])->state_after->next_step, made->state_after->next_step);
}

// Constructors of one process get their buckets, and what they pass on once.
TEST_F(CarrierTest, AConstructorGetsItsBucketAndAllPassOnTheSame) {
  constexpr uint32_t kBuckets = 4, kSegments = 100;
  auto made = std::make_shared<model::Plan>(*plan(3));
  model::Layer& layer = made->layers[0];
  auto views = std::make_shared<model::ViewTable>();
  views->by_rank.resize(kBuckets);
  layer.views = views;
  layer.buckets = kBuckets;
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    layer.placements.push_back({bucket, 0, 0});
    layer.segments.resize(layer.segments.size() + kSegments);
    layer.segments.back().id.position = bucket;
    layer.bin_ends.push_back(static_cast<uint32_t>(layer.segments.size()));
  }
  loader_.carrier->know({{views}, 1});
  constructor_.carrier->know({{views}, 1});
  protocol::Hello hello;
  hello.name = constructor_.name;
  for (uint32_t b = 0; b < kBuckets; ++b) hello.roles.push_back(protocol::constructor_address(b));
  loader_.out = std::make_shared<PiledLink>();
  loader_.carrier->connect(hello, loader_.out);
  const uint64_t before = loader_.carrier->stats().frames_sent;
  for (const Address& to : hello.roles) loader_.carrier->send(publication(made, to));
  EXPECT_EQ(loader_.carrier->stats().frames_sent - before, 1u + kBuckets);
  move();
  ASSERT_EQ(constructor_.got.size(), kBuckets);
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    const auto& got = std::get<protocol::PlanPublished>(constructor_.got[bucket].message);
    ASSERT_EQ(got.plan->layers[0].segments.size(), kSegments);
    EXPECT_EQ(got.plan->layers[0].segments.back().id.position, bucket);
    EXPECT_EQ(got.index->buckets[bucket].segments.size(), kSegments);
    constructor_.carrier->send(ready(got.plan));
  }
  move();
  ASSERT_EQ(loader_.got.size(), kBuckets);
  for (const Envelope& envelope : loader_.got) {
    ASSERT_NE(plan_of(envelope)->state_after, nullptr);
    EXPECT_EQ(plan_of(envelope)->state_after->next_step, made->state_after->next_step);
    EXPECT_EQ(plan_of(envelope)->delays, made->delays) << "as the planner told it, not as a part";
  }
}

// Large frames between hosts may be overtaken.
TEST_F(CarrierTest, APlanThatOvertakesWhatIsPassedOnWaitsForIt) {
  const model::PlanPtr made = plan(3);
  connect(1, /*remote=*/true);
  loader_.carrier->send(publication(made, kConstructor));
  ASSERT_EQ(loader_.out->frames.size(), 2u) << "what is passed on, then the plan";
  std::swap(loader_.out->frames[0], loader_.out->frames[1]);
  Frame late = std::move(loader_.out->frames.back());
  loader_.out->frames.pop_back();
  pass(loader_, constructor_);
  EXPECT_TRUE(constructor_.got.empty());
  loader_.out->frames.push_back(std::move(late));
  pass(loader_, constructor_);
  ASSERT_EQ(constructor_.got.size(), 1u);
  EXPECT_FALSE(constructor_.out->closed);

  connect();
  loader_.carrier->send(publication(made, kConstructor));
  loader_.out->frames.pop_front();
  pass(loader_, constructor_);
  EXPECT_TRUE(constructor_.out->closed) << "on one host nothing overtakes";
}

TEST_F(CarrierTest, AShadowIsToldWhatItsSlotReads) {
  auto standby = std::make_shared<PiledLink>();
  protocol::Roster roster;
  roster.processes = {{"loaders-0", 1, {kLoader}}, {"loaders-1", 1, {}, "", 0, {kLoader}}};
  constructor_.carrier->set_roster(roster);
  protocol::Hello hello;
  hello.name = "loaders-1";
  constructor_.carrier->connect(hello, standby);
  auto rows = std::make_shared<model::SlotRows>();
  rows->rows.resize(2);
  rows->buckets = {{0, 2, 0}};
  constructor_.carrier->send({{}, kConstructor, kLoader, protocol::RowsPlanned{rows}});
  ASSERT_EQ(standby->frames.size(), 1u);
  ASSERT_EQ(constructor_.out->frames.size(), 1u);
  EXPECT_EQ(standby->frames[0].bytes, constructor_.out->frames[0].bytes);
  move();
  ASSERT_EQ(loader_.got.size(), 1u);
  EXPECT_EQ(std::get<protocol::RowsPlanned>(loader_.got[0].message).rows->rows, rows->rows);
}

TEST_F(CarrierTest, ANewLinkIsToldThePlanAgain) {
  const model::PlanPtr made = plan(3);
  constructor_.carrier->send(ready(made));
  move();
  connect();
  constructor_.carrier->send(ready(made));
  move();
  ASSERT_EQ(loader_.got.size(), 2u);
  EXPECT_EQ(plan_of(loader_.got[1])->delays, made->delays);
}

TEST_F(CarrierTest, StepsLongPastAndOtherHostsGetThePlanWithTheStep) {
  for (const StepIndex step : {500u, 1u}) constructor_.carrier->send(ready(plan(step)));
  EXPECT_EQ(constructor_.out->frames.size(), 3u) << "a plan and its step, and a step with its plan";
  move();
  connect(1, /*remote=*/true);
  constructor_.carrier->send(ready(plan(501)));
  EXPECT_EQ(constructor_.out->frames.size(), 1u);
  move();
  ASSERT_EQ(loader_.got.size(), 3u);
  EXPECT_EQ(plan_of(loader_.got[1])->step, 1u);
  EXPECT_EQ(plan_of(loader_.got[2])->step, 501u);
}

TEST_F(CarrierTest, AStepWhosePlanWasNeverSentIsNonsense) {
  constructor_.carrier->send(ready(plan(3)));
  ASSERT_EQ(constructor_.out->frames.size(), 2u) << "the plan, then the step";
  constructor_.out->frames.pop_front();
  pass(constructor_, loader_);
  EXPECT_TRUE(loader_.got.empty());
  EXPECT_TRUE(loader_.out->closed);
}

TEST_F(CarrierTest, DocumentsOfOneSegmentShareOneHolder) {
  Envelope envelope = payload(1, 1000);
  auto many = std::make_shared<protocol::Payload>(payload_of(envelope));
  const auto* values = static_cast<const int32_t*>(many->spans[0].data);
  many->ordinals.clear();
  many->spans.clear();
  for (uint32_t i = 0; i < 100; ++i) {
    many->ordinals.push_back(i);
    many->spans.push_back({values + 10 * i, nullptr, 10, model::Element::kI32});
  }
  envelope.message = protocol::PayloadPtr(many);
  loader_.carrier->send(std::move(envelope));
  many.reset();
  move();
  ASSERT_EQ(constructor_.got.size(), 1u);
  const protocol::Payload& got = payload_of(constructor_.got[0]);
  EXPECT_EQ(got.holders.size(), 1u);
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(*static_cast<const int32_t*>(got.spans[i].data), static_cast<int32_t>(1000 + 10 * i));
  }
}

TEST_F(CarrierTest, NonsenseEndsTheLinkAndIsNamed) {
  const std::string frames[] = {"",
                                "\x09",
                                std::string("\x01xyz"),
                                std::string("\x02"),
                                std::string("\x00\xff", 2),
                                std::string(5000, '\x01')};
  for (const std::string& frame : frames) {
    connect();
    constructor_.nonsense.clear();
    constructor_.carrier->receive(loader_.name, constructor_.out.get(), frame, {});
    EXPECT_TRUE(constructor_.out->closed);
    EXPECT_EQ(constructor_.nonsense, std::vector<std::string>{loader_.name});
  }
  EXPECT_TRUE(constructor_.got.empty());
}

TEST_F(CarrierTest, ARangeOutsideItsSegmentIsNonsense) {
  loader_.carrier->send(payload(1));
  ASSERT_EQ(loader_.out->frames.size(), 2u) << "the segment, then the envelope";
  loader_.out->frames.pop_front();  // the segment is never told of
  pass(loader_, constructor_);
  EXPECT_TRUE(constructor_.got.empty());
  EXPECT_TRUE(constructor_.out->closed);
}

TEST_F(CarrierTest, ReleasesOfOthersFreeNothing) {
  loader_.carrier->send(payload(1));
  move();
  std::string frame(1, '\0');
  frame += protocol::encode_control(protocol::LeaseReleased{0, 99});
  loader_.carrier->receive(constructor_.name, loader_.out.get(), frame, {});
  EXPECT_EQ(loader_.carrier->stats().leases.leases, 1u);
  EXPECT_EQ(loader_.carrier->stats().leases.stale_count, 1u);
}

TEST_F(CarrierTest, FramesOfAReplacedLinkAreNotRead) {
  loader_.carrier->send(payload(1));
  const std::shared_ptr<PiledLink> old_in = constructor_.out;
  std::deque<Frame> old = std::move(loader_.out->frames);
  connect();
  for (Frame& frame : old) {
    constructor_.carrier->receive(loader_.name, old_in.get(), frame.bytes,
                                  std::move(frame.descriptors));
  }
  EXPECT_TRUE(constructor_.got.empty());
}

}  // namespace
}  // namespace overlord::transport
