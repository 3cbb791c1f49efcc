#include "overlord/transport/shared/lease_book.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "overlord/base/rng.h"

namespace overlord::transport {
namespace {

TEST(LeaseBook, KeepsABufferUntilItsHolderLetsGo) {
  LeaseBook book;
  book.add_peer(1);
  auto buffer = std::make_shared<int>(5);
  std::weak_ptr<int> watched = buffer;
  const auto lease = book.grant(1, std::move(buffer), 100);
  ASSERT_TRUE(lease.ok());
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(book.held_bytes(1), 100u);
  EXPECT_TRUE(book.release(1, *lease));
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(book.held_bytes(1), 0u);
}

TEST(LeaseBook, AStaleReleaseFreesNothing) {
  LeaseBook book;
  book.add_peer(1);
  book.add_peer(2);
  const Lease first = *book.grant(1, std::make_shared<int>(1), 1);
  EXPECT_TRUE(book.release(1, first));
  EXPECT_FALSE(book.release(1, first));  // twice
  auto buffer = std::make_shared<int>(2);
  std::weak_ptr<int> watched = buffer;
  const Lease second = *book.grant(1, std::move(buffer), 1);
  ASSERT_EQ(second.number, first.number);
  EXPECT_NE(second.generation, first.generation);
  EXPECT_FALSE(book.release(1, first));   // late: the number is somebody else's now
  EXPECT_FALSE(book.release(2, second));  // not its lease
  EXPECT_FALSE(book.release(1, {77, 1}));
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(book.stats().stale_count, 4u);
  EXPECT_TRUE(book.release(1, second));
}

TEST(LeaseBook, NothingCanBeLeasedToTheDead) {
  LeaseBook book;
  EXPECT_EQ(book.grant(1, std::make_shared<int>(1), 1).status().code(), Code::kUnavailable);
  book.add_peer(1);
  auto buffer = std::make_shared<int>(2);
  const Lease lease = *book.grant(1, buffer, 1);
  EXPECT_EQ(book.drop_peer(1), 1u);
  EXPECT_EQ(buffer.use_count(), 1);
  EXPECT_EQ(book.drop_peer(1), 0u);
  EXPECT_EQ(book.grant(1, buffer, 1).status().code(), Code::kUnavailable);
  EXPECT_FALSE(book.release(1, lease));
  EXPECT_EQ(book.stats().leases, 0u);
  EXPECT_EQ(book.stats().dropped_count, 1u);
}

// Random grants, releases, repeated releases and deaths against a plain map of what is held.
TEST(LeaseBook, AgreesWithAPlainMap) {
  struct Held {
    Lease lease;
    std::weak_ptr<int> buffer;
  };
  for (uint64_t seed = 0; seed < 40; ++seed) {
    uint64_t draws = 0;
    const auto below = [&](uint64_t n) { return uniform_below(seed, ++draws, 0, n); };
    LeaseBook book;
    std::map<PeerId, std::vector<Held>> held;
    std::vector<std::pair<PeerId, Lease>> ended;
    PeerId last_peer = 0;
    for (int turn = 0; turn < 500; ++turn) {
      const uint64_t act = below(10);
      if (held.empty() || act == 0) {
        book.add_peer(++last_peer);
        held[last_peer];
        continue;
      }
      auto peer = std::next(held.begin(), static_cast<long>(below(held.size())));
      if (act == 1) {
        EXPECT_EQ(book.drop_peer(peer->first), peer->second.size());
        for (const Held& lease : peer->second) {
          EXPECT_TRUE(lease.buffer.expired());
          ended.emplace_back(peer->first, lease.lease);
        }
        held.erase(peer);
      } else if (act < 6 || peer->second.empty()) {
        auto buffer = std::make_shared<int>(turn);
        std::weak_ptr<int> watched = buffer;
        peer->second.push_back({*book.grant(peer->first, std::move(buffer), 10), watched});
      } else if (act < 9) {
        const Held last = peer->second.back();
        peer->second.pop_back();
        EXPECT_TRUE(book.release(peer->first, last.lease));
        EXPECT_TRUE(last.buffer.expired());
        ended.emplace_back(peer->first, last.lease);
      } else if (!ended.empty()) {
        const auto& [who, lease] = ended[below(ended.size())];
        EXPECT_FALSE(book.release(who, lease));
      }
      size_t leases = 0;
      for (const auto& [id, list] : held) {
        leases += list.size();
        EXPECT_EQ(book.held_bytes(id), 10 * list.size());
        for (const Held& lease : list) EXPECT_FALSE(lease.buffer.expired());
      }
      ASSERT_EQ(book.stats().leases, leases);
    }
  }
}

}  // namespace
}  // namespace overlord::transport
