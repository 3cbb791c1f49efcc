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

}  // namespace
}  // namespace overlord::protocol
