// Sounds in the stream, alone and beside pictures of the same documents: the same samples whoever
// reads, plans, dies or resumes; what does not decode is a hole with a name.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "overlord/sim/scenario.h"
#include "overlord/testing/picture_corpus.h"
#include "overlord/testing/sound_corpus.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace sound_stream_test {

constexpr uint64_t kSteps = 10;
constexpr uint32_t kImagePad = 900, kSoundPad = 901, kSoundAfter = 902;
constexpr uint32_t kEvery = 100;  // samples per placeholder

// The text source of the small scenario, and clips with a text, some with a picture.
Scenario with_sounds(uint64_t broken = ~uint64_t{0}) {
  Scenario scenario = Scenario::small();
  scenario.spec.sources.erase(scenario.spec.sources.begin(), scenario.spec.sources.begin() + 2);
  scenario.corpora.erase(scenario.corpora.begin(), scenario.corpora.begin() + 2);
  model::Source source = scenario.spec.sources[0];  // "gamma": also text in bytes
  source.name = "sounds";
  source.format = model::Format::kWebdataset;
  source.text_column = "txt";
  source.over_length = model::OverLength::kDrop;
  source.bad_rows_allowed = 100;
  source.window_rows = 8;
  model::MediaUse sound;
  sound.kind = model::MediaKind::kAudio;
  sound.transform = "mono; resample rate=16000; pcm16";
  sound.pad = kSoundPad;
  sound.after = kSoundAfter;
  sound.units_per_pad = kEvery;
  model::MediaUse image;
  image.transform = "patchify layout=vit patch=8";
  image.pad = kImagePad;
  source.media = {{"audio", {"wav"}, sound}, {"image", {"png"}, image}};
  source.files.clear();
  for (const auto& [uri, bytes] : testing::sound_corpus({}, broken)) {
    scenario.objects->put(uri, bytes);
    source.files.push_back(uri);
  }
  scenario.spec.sources.push_back(std::move(source));
  scenario.spec.columns = {"audio_count", "audio_frames", "image_count", "image_patches"};
  scenario.spec.mixture.stages = {{0, {model::kWeightOne, model::kWeightOne}}};
  scenario.spec.max_steps = kSteps;
  return scenario;
}

Digest hash_of(const Scenario& scenario, uint64_t seed) {
  auto cluster = scenario.start(seed);
  EXPECT_TRUE(cluster->run(kSteps)) << "hangs";
  EXPECT_FALSE(cluster->failure()) << cluster->failure()->message();
  return cluster->stream_hash();
}

const model::MediaSlab* slab_of(const model::Microbatch& batch, std::string_view name) {
  if (!batch.media) return nullptr;
  for (const model::MediaSlab& slab : *batch.media) {
    if (slab.layout.name == name) return &slab;
  }
  return nullptr;
}

// The samples of an item tell which sound it is.
void check_sound(const model::Microbatch& batch, const model::MediaSlab& slab,
                 const model::MediaItem& item, std::set<uint64_t>* seen) {
  const testing::SoundSpec sounds;
  const auto* data = static_cast<const int16_t*>(slab.data.data) + item.row_begin;
  const auto is = [&](uint64_t sample) {
    if (testing::sound_samples(sounds, sample) != item.shape.rows) return false;
    for (uint32_t time = 0; time < item.shape.rows; ++time) {
      if (data[time] != testing::pressure_at(sample, time)) return false;
    }
    return true;
  };
  uint64_t sample = 0;
  const uint64_t end = uint64_t{sounds.shards} * sounds.samples;
  while (sample < end && !(testing::has_sound(sample) && is(sample))) ++sample;
  ASSERT_LT(sample, end) << "a sound of nobody";
  seen->insert(sample);
  EXPECT_EQ(item.shape, (model::MediaShape{item.shape.rows, 1, item.shape.rows, item.shape.rows}));
  EXPECT_EQ(item.tokens, (item.shape.rows + kEvery - 1) / kEvery);
  const auto* tokens = static_cast<const int32_t*>(batch.slab->tokens.data) + item.first;
  for (uint32_t i = 0; i < item.tokens; ++i) EXPECT_EQ(tokens[i], static_cast<int32_t>(kSoundPad));
  EXPECT_EQ(tokens[item.tokens], static_cast<int32_t>(kSoundAfter));
  const model::MediaSlab* const pictures = slab_of(batch, "image");
  bool beside = false;
  for (size_t i = 0; pictures != nullptr && i < pictures->items.size(); ++i) {
    const model::MediaItem& picture = pictures->items[i];
    if (picture.document != item.document) continue;
    beside = true;
    EXPECT_EQ(picture.first, item.first + item.tokens + 1);  // by the order of names
    const auto* level = static_cast<const uint8_t*>(pictures->data.data) +
                        picture.row_begin * pictures->layout.row_bytes();
    EXPECT_EQ(level[1], testing::level_at(sample, 1, 0, 0));
  }
  EXPECT_EQ(beside, testing::has_picture(sample));
}

TEST(Sounds, TravelWithTheirDocumentsSampleBySample) {
  const Scenario scenario = with_sounds();
  auto cluster = scenario.start(1);
  ASSERT_TRUE(cluster->run(kSteps));
  ASSERT_FALSE(cluster->failure()) << cluster->failure()->message();
  std::set<uint64_t> seen;
  for (const Rank rank : cluster->ranks()) {
    for (const auto& batch : cluster->delivered(rank).batches) {
      const model::MediaSlab* const slab = slab_of(*batch, "audio");
      if (slab == nullptr || slab->data.data == nullptr) continue;
      EXPECT_EQ(slab->layout.element, model::Element::kI16);
      EXPECT_TRUE(slab->layout.row_shape.empty());
      for (const model::MediaItem& item : slab->items) {
        ASSERT_NO_FATAL_FAILURE(check_sound(*batch, *slab, item, &seen)) << "rank " << rank;
      }
    }
  }
  EXPECT_GT(seen.size(), 15u);
}

TEST(Sounds, TheStreamIsTheSameWhoeverReadsItAndWhoeverDies) {
  Scenario scenario = with_sounds(9);
  const Digest expected = hash_of(scenario, 1);
  EXPECT_NE(expected, hash_of(with_sounds(), 1));
  scenario.spec.sources[1].loaders = 2;
  scenario.spec.sources[1].workers = 3;
  const auto job = scenario.open();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimCluster cluster(job, *scenario.objects, scenario.all_ranks(), scenario.options,
                       host::start_state(*job), seed, stormy(seed));
    ASSERT_TRUE(cluster.run(kSteps)) << "hangs, seed " << seed;
    ASSERT_FALSE(cluster.failure()) << cluster.failure()->message();
    ASSERT_EQ(cluster.stream_hash(), expected) << "seed " << seed;
  }
}

TEST(Sounds, ResumeAtEveryMicrobatch) {
  const Scenario scenario = with_sounds();
  auto whole = scenario.start(1);
  ASSERT_TRUE(whole->run(kSteps));
  const auto& expected = whole->delivered(1).batches;
  for (size_t stop = 1; stop < expected.size(); ++stop) {
    auto before = scenario.resume(host::start_state(*scenario.open()), 10 + stop, {1});
    ASSERT_TRUE(before->take(1, stop));
    auto after = scenario.resume(before->consumer(1).state(), 50 + stop, {1});
    ASSERT_TRUE(after->run(kSteps));
    const auto& rest = after->delivered(1).batches;
    ASSERT_EQ(rest.size(), expected.size() - stop);
    for (size_t i = 0; i < rest.size(); ++i) {
      ASSERT_EQ(rest[i]->digest, expected[stop + i]->digest) << "stopped after " << stop;
    }
  }
}

TEST(Sounds, OneThatDoesNotDecodeIsAHoleWithAName) {
  const Scenario scenario = with_sounds(9);
  auto cluster = scenario.start(2);
  ASSERT_TRUE(cluster->run(kSteps)) << "hangs";
  ASSERT_FALSE(cluster->quarantine().empty());
  for (const loader::QuarantineNote& note : cluster->quarantine()) {
    EXPECT_TRUE(note.late);
    EXPECT_EQ(note.row, 9u);
    EXPECT_NE(note.reason.find("clips-00000.tar"), std::string::npos) << note.reason;
    EXPECT_NE(note.reason.find("audio"), std::string::npos) << note.reason;
    EXPECT_NE(note.reason.find("NaN"), std::string::npos) << note.reason;
  }
}

}  // namespace sound_stream_test
}  // namespace overlord::sim
