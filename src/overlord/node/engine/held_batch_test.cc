// What a held batch keeps alive, and what of it a private one copies.
#include "overlord/node/engine/held_batch.h"

#include <gtest/gtest.h>

#include <cstring>

namespace overlord::node {
namespace {

using Memory = std::vector<uint8_t>;

// Tokens and targets, no weights; pictures, and items without their data.
struct SharedBatch {
  std::shared_ptr<Memory> tokens = std::make_shared<Memory>(Memory{1, 2, 3, 4, 5});
  std::shared_ptr<Memory> pictures = std::make_shared<Memory>(Memory(100, 9));
  model::Microbatch batch;

  SharedBatch() {
    auto slab = std::make_shared<model::Slab>();
    slab->holder = tokens;
    slab->tokens = {tokens->data(), 3};
    slab->targets = {tokens->data() + 3, 2};
    batch.slab = slab;
    auto media = std::make_shared<std::vector<model::MediaSlab>>(2);
    (*media)[0].holder = pictures;
    (*media)[0].data = {pictures->data(), 100};
    batch.media = media;
  }
  void forget() {
    batch = {};
    tokens.reset();
    pictures.reset();
  }
};

TEST(HeldBatch, CountsWhatItsViewsShow) {
  SharedBatch shared;
  EXPECT_EQ(payload_bytes(shared.batch), 105u);
  shared.batch.encoded = shared.batch.media;
  EXPECT_EQ(payload_bytes(shared.batch), 205u);
  shared.batch.slab.reset();
  EXPECT_EQ(payload_bytes(shared.batch), 200u) << "a rank without tokens";
}

TEST(HeldBatch, ACountedOneIsTheSameMemoryAndBothLive) {
  SharedBatch shared;
  auto counted = std::make_shared<int>(0);
  const auto held = counted_batch(shared.batch, counted);
  EXPECT_EQ(held->slab->tokens.data, shared.tokens->data());
  EXPECT_EQ((*held->media)[0].data.data, shared.pictures->data());
  EXPECT_EQ((*held->media)[1].data.data, nullptr);
  const std::weak_ptr<int> count = counted;
  const std::weak_ptr<Memory> tokens = shared.tokens;
  counted.reset();
  shared.forget();
  const auto slab = held->slab;
  EXPECT_FALSE(tokens.expired());
  EXPECT_FALSE(count.expired());
}

TEST(HeldBatch, APrivateOneLetsTheSharedMemoryGo) {
  SharedBatch shared;
  const std::weak_ptr<Memory> tokens = shared.tokens, pictures = shared.pictures;
  auto counted = std::make_shared<int>(0);
  const auto held = private_batch(shared.batch, counted);
  shared.forget();
  EXPECT_TRUE(tokens.expired());
  EXPECT_TRUE(pictures.expired());
  EXPECT_EQ(std::memcmp(held->slab->tokens.data, "\1\2\3", 3), 0);
  EXPECT_EQ(std::memcmp(held->slab->targets.data, "\4\5", 2), 0);
  EXPECT_EQ(held->slab->loss_weights.data, nullptr) << "what the rank does not get";
  const auto* picture = static_cast<const uint8_t*>((*held->media)[0].data.data);
  EXPECT_EQ(Memory(picture, picture + 100), Memory(100, 9));
  for (const void* data :
       {held->slab->tokens.data, held->slab->targets.data, (*held->media)[0].data.data}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
  }
}

TEST(HeldBatch, IsCountedAsLongAsAnyPartOfItIsHeld) {
  for (const auto& hold : {counted_batch, private_batch}) {
    SharedBatch shared;
    const auto counted = std::make_shared<int>(0);
    auto slab = hold(shared.batch, counted)->slab;
    EXPECT_GT(counted.use_count(), 1) << "tokens are held";
    slab.reset();
    EXPECT_EQ(counted.use_count(), 1);
    auto media = hold(shared.batch, counted)->media;
    EXPECT_GT(counted.use_count(), 1) << "pictures are held";
    media.reset();
    EXPECT_EQ(counted.use_count(), 1);
  }
}

}  // namespace
}  // namespace overlord::node
