#include "overlord/protocol/peer_generations.h"

#include <gtest/gtest.h>

namespace overlord::protocol {
namespace {

Envelope from_loader(uint32_t generation) {
  Envelope envelope;
  envelope.from = loader_address(2, 1);
  envelope.versions.generation = generation;
  return envelope;
}

TEST(PeerGenerations, RefusesWhatIsOlderThanTheNewestKnown) {
  PeerGenerations peers;
  const model::Versions ours;
  EXPECT_FALSE(peers.stale(ours, from_loader(1)));
  peers.apply({loader_address(2, 1), 3});
  EXPECT_TRUE(peers.stale(ours, from_loader(2)));
  EXPECT_FALSE(peers.stale(ours, from_loader(3)));
  Envelope neighbour = from_loader(1);
  neighbour.from.slot = 0;
  EXPECT_FALSE(peers.stale(ours, neighbour)) << "generations are of one slot";
  peers.apply({loader_address(2, 1), 2});
  EXPECT_TRUE(peers.stale(ours, from_loader(2))) << "generations only grow";
}

TEST(PeerGenerations, AYoungerSenderIsNews) {
  PeerGenerations peers({{loader_address(2, 1), 4}});
  EXPECT_FALSE(peers.news(from_loader(4)));
  const auto news = peers.news(from_loader(5));
  ASSERT_TRUE(news);
  EXPECT_EQ(news->role, loader_address(2, 1));
  EXPECT_EQ(news->generation, 5u);
}

TEST(PeerGenerations, OurOwnGenerationIsNotComparedWithTheirs) {
  const PeerGenerations peers;
  model::Versions ours;
  ours.generation = 9;
  EXPECT_FALSE(peers.stale(ours, from_loader(1)));
  Envelope other_attempt = from_loader(1);
  other_attempt.versions.attempt = 2;
  EXPECT_TRUE(peers.stale(ours, other_attempt));
}

TEST(PeerGenerations, AVersionFencesWhatRestsOnItAndNothingElse) {
  const PeerGenerations peers;
  const model::Versions ours;
  const auto stale = [&](uint32_t model::Versions::* moved, Message message) {
    Envelope envelope = from_loader(1);
    envelope.message = std::move(message);
    EXPECT_FALSE(peers.stale(ours, envelope));
    envelope.versions.*moved = 2;
    return peers.stale(ours, envelope);
  };
  const std::vector<Message> all = {
      MetaGrant{},   MetaPosted{},     PlanPublished{}, Fetch{},        PayloadPtr(),
      Get{},         StepReady{},      Acknowledged{},  StreamFailed{}, LateBad{},
      Report{},      ReportAnswered{}, PeerRestarted{}, TermOpened{},   TermPromised{},
      SlotsWished{}, LoadTold{},       RowsPlanned{},   CalloutAsked{}, CalloutTold{}};
  ASSERT_EQ(all.size(), std::variant_size_v<Message>);
  for (const Message& message : all) {
    EXPECT_TRUE(stale(&model::Versions::attempt, message)) << message.index();
    EXPECT_TRUE(stale(&model::Versions::format, message)) << message.index();
    EXPECT_FALSE(stale(&model::Versions::tree, message)) << message.index();
    EXPECT_FALSE(stale(&model::Versions::mixture, message)) << message.index();
    EXPECT_FALSE(stale(&model::Versions::owner_map, message)) << message.index();
  }
}

}  // namespace
}  // namespace overlord::protocol
