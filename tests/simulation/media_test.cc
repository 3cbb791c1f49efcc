// Media in the stream: the same bytes whoever reads, plans, dies or resumes; what does not decode
// is a hole with a name.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "overlord/sim/scenario.h"
#include "overlord/testing/picture_corpus.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace media_test {

constexpr uint64_t kSteps = 10;
constexpr uint32_t kPad = 900, kBefore = 901;
constexpr uint32_t kPatch = 8;

// The text source of the small scenario, and pictures with captions.
Scenario with_pictures(uint64_t broken = ~uint64_t{0}) {
  Scenario scenario = Scenario::small();
  scenario.spec.sources.erase(scenario.spec.sources.begin(), scenario.spec.sources.begin() + 2);
  scenario.corpora.erase(scenario.corpora.begin(), scenario.corpora.begin() + 2);
  const testing::Files files = testing::picture_corpus({}, broken);
  model::Source source = scenario.spec.sources[0];  // "gamma": also text in bytes
  source.name = "pairs";
  source.format = model::Format::kWebdataset;
  source.text_column = "txt";
  source.over_length = model::OverLength::kDrop;
  source.bad_rows_allowed = 100;
  source.window_rows = 8;
  model::MediaUse use;
  use.transform = "random_flip; patchify layout=vit patch=8";
  use.pad = kPad;
  use.before = kBefore;
  source.media = {{"image", {"png"}, use}};
  source.files.clear();
  for (const auto& [uri, bytes] : files) {
    scenario.objects->put(uri, bytes);
    source.files.push_back(uri);
  }
  scenario.spec.sources.push_back(std::move(source));
  scenario.spec.columns = {"image_count", "image_patches"};
  scenario.spec.mixture.stages = {{0, {model::kWeightOne, model::kWeightOne}}};
  scenario.spec.max_steps = kSteps;
  return scenario;
}

// Samples with none to three pictures each, whose places are in the text.
testing::PictureSpec listed_pictures() {
  testing::PictureSpec pictures;
  pictures.source = "lists";
  pictures.several = 3;
  return pictures;
}

Scenario with_lists(uint64_t broken = ~uint64_t{0}) {
  Scenario scenario = with_pictures();
  model::Source& source = scenario.spec.sources[1];
  source.media[0].many = true;
  source.media[0].use->in_text = true;
  source.media[0].use->pad = testing::kMark;
  source.files.clear();
  for (const auto& [uri, bytes] : testing::picture_corpus(listed_pictures(), broken)) {
    scenario.objects->put(uri, bytes);
    source.files.push_back(uri);
  }
  return scenario;
}

Digest hash_of(const Scenario& scenario, uint64_t seed) {
  auto cluster = scenario.start(seed);
  EXPECT_TRUE(cluster->run(kSteps)) << "hangs";
  EXPECT_FALSE(cluster->failure()) << cluster->failure()->message();
  return cluster->stream_hash();
}

// One patch of a picture, flipped across or not.
std::vector<uint8_t> patch_of(uint64_t sample, uint32_t width, uint32_t patch, bool flipped) {
  const uint32_t across = width / kPatch;
  const uint32_t left = patch % across * kPatch, top = patch / across * kPatch;
  std::vector<uint8_t> out;
  for (uint32_t c = 0; c < 3; ++c) {
    for (uint32_t y = top; y < top + kPatch; ++y) {
      for (uint32_t x = left; x < left + kPatch; ++x) {
        out.push_back(testing::level_at(sample, flipped ? width - 1 - x : x, y, c));
      }
    }
  }
  return out;
}

// The sample behind a document, from the number at the end of its caption.
uint64_t sample_of(const model::Microbatch& batch, const model::LineageRow& row, uint64_t begin) {
  const auto* tokens = static_cast<const int32_t*>(batch.slab->tokens.data) + begin;
  uint64_t number = 0;
  for (uint32_t i = 0; i < row.count; ++i) {
    if (tokens[i] >= '0' && tokens[i] <= '9') {
      number = number * 10 + static_cast<uint64_t>(tokens[i] - '0');
    }
  }
  return number;
}

void check_item(const model::Microbatch& batch, const model::MediaSlab& slab,
                const model::MediaItem& item, uint64_t sample, std::map<bool, int>* flips) {
  const testing::PictureSpec pictures;
  const uint32_t width = testing::picture_width(pictures, sample);
  const uint32_t height = testing::picture_height(pictures, sample);
  EXPECT_EQ(item.shape, (model::MediaShape{width / kPatch * (height / kPatch), 1, height / kPatch,
                                           width / kPatch}));
  EXPECT_EQ(item.tokens, item.shape.rows);
  const auto* tokens = static_cast<const int32_t*>(batch.slab->tokens.data);
  EXPECT_EQ(tokens[item.first - 1], static_cast<int32_t>(kBefore));
  for (uint32_t i = 0; i < item.tokens; ++i) {
    EXPECT_EQ(tokens[item.first + i], static_cast<int32_t>(kPad));
  }
  const auto* rows =
      static_cast<const uint8_t*>(slab.data.data) + item.row_begin * slab.layout.row_bytes();
  const auto as_made = [&](bool flipped) {
    for (uint32_t patch = 0; patch < item.shape.rows; ++patch) {
      const std::vector<uint8_t> expected = patch_of(sample, width, patch, flipped);
      const uint8_t* got = rows + patch * slab.layout.row_bytes();
      if (std::memcmp(got, expected.data(), expected.size()) != 0) return false;
    }
    return true;
  };
  const bool flipped = as_made(true);
  EXPECT_TRUE(flipped || as_made(false)) << "sample " << sample;
  ++(*flips)[flipped];
}

TEST(Media, TravelWithTheirDocumentsPixelByPixel) {
  const Scenario scenario = with_pictures();
  auto cluster = scenario.start(1);
  ASSERT_TRUE(cluster->run(kSteps));
  ASSERT_FALSE(cluster->failure()) << cluster->failure()->message();
  std::map<bool, int> flips;
  for (const Rank rank : cluster->ranks()) {
    for (const auto& batch : cluster->delivered(rank).batches) {
      std::vector<uint64_t> begins;  // of the documents; empty rows count as one without tokens
      const model::Boundaries& bounds = batch->core->boundaries;
      for (size_t i = 0; i + 1 < bounds.cu_seqlens.size(); ++i) {
        if (bounds.cu_seqlens[i + 1] > bounds.cu_seqlens[i]) {
          begins.push_back(static_cast<uint64_t>(bounds.cu_seqlens_padded[i]));
        }
      }
      std::map<uint32_t, const model::MediaItem*> items;
      if (batch->media) {
        ASSERT_EQ(batch->media->size(), 1u);
        for (const model::MediaItem& item : batch->media->front().items) {
          items[item.document] = &item;
        }
      }
      for (uint32_t row = 0; row < batch->core->lineage.size(); ++row) {
        const model::LineageRow& line = batch->core->lineage[row];
        if (line.id.source != 1) continue;
        const uint64_t sample = sample_of(*batch, line, begins[row]);
        ASSERT_EQ(items.contains(row), testing::has_picture(sample)) << "sample " << sample;
        if (!items.contains(row)) continue;
        check_item(*batch, batch->media->front(), *items[row], sample, &flips);
      }
    }
  }
  EXPECT_GT(flips[true], 5);
  EXPECT_GT(flips[false], 5);
}

TEST(Media, TheStreamIsTheSameWhoeverReadsIt) {
  const Scenario scenario = with_pictures();
  const Digest expected = hash_of(scenario, 1);
  for (uint64_t seed = 2; seed < 12; ++seed) EXPECT_EQ(hash_of(scenario, seed), expected);
  Scenario spread = with_pictures();
  spread.spec.sources[1].loaders = 3;
  spread.spec.sources[1].workers = 4;
  EXPECT_EQ(hash_of(spread, 5), expected);
}

TEST(Media, ListsStandInTheTextOfTheirDocuments) {
  const testing::PictureSpec pictures = listed_pictures();
  const Scenario scenario = with_lists();
  auto cluster = scenario.start(1);
  ASSERT_TRUE(cluster->run(kSteps));
  ASSERT_FALSE(cluster->failure()) << cluster->failure()->message();
  EXPECT_TRUE(cluster->quarantine().empty());
  size_t items = 0;
  for (const auto& batch : cluster->delivered(0).batches) {
    if (!batch->media) continue;
    const model::MediaSlab& slab = batch->media->front();
    const auto* tokens = static_cast<const int32_t*>(batch->slab->tokens.data);
    std::map<uint32_t, std::vector<model::MediaItem>> by_document;
    for (const model::MediaItem& item : slab.items) by_document[item.document].push_back(item);
    for (const auto& [document, own] : by_document) {
      // Its number stands at the end of its text, behind the last picture.
      uint64_t sample = 0;
      const uint32_t text = own.back().first + own.back().tokens;
      for (uint32_t i = text; tokens[i] != 0 && i < text + 16; ++i) {
        if (tokens[i] >= '0' && tokens[i] <= '9') {
          sample = sample * 10 + static_cast<uint64_t>(tokens[i] - '0');
        } else if (sample > 0) {
          break;
        }
      }
      ASSERT_EQ(own.size(), testing::pictures_of(pictures, sample)) << sample;
      for (uint32_t k = 0; k < own.size(); ++k) {
        const uint64_t number = testing::picture_number(sample, k);
        const uint32_t width = testing::picture_width(pictures, number);
        const uint32_t height = testing::picture_height(pictures, number);
        EXPECT_EQ(own[k].shape.h, height / kPatch);
        EXPECT_EQ(own[k].shape.w, width / kPatch);
        EXPECT_EQ(own[k].tokens, own[k].shape.rows);
        EXPECT_EQ(tokens[own[k].first - 1], static_cast<int32_t>(kBefore));
        for (uint32_t i = 0; i < own[k].tokens; ++i) {
          EXPECT_EQ(tokens[own[k].first + i], int32_t{testing::kMark});
        }
        const auto* rows = static_cast<const uint8_t*>(slab.data.data) +
                           own[k].row_begin * slab.layout.row_bytes();
        const auto is = [&](bool flipped) {
          const std::vector<uint8_t> first = patch_of(number, width, 0, flipped);
          return std::memcmp(rows, first.data(), first.size()) == 0;
        };
        EXPECT_TRUE(is(false) || is(true)) << "sample " << sample << ", picture " << k;
        ++items;
      }
    }
  }
  EXPECT_GT(items, 20u);
  for (uint64_t seed = 2; seed < 6; ++seed) {
    EXPECT_EQ(hash_of(scenario, seed), cluster->stream_hash());
  }
}

TEST(Media, ContentDoesNotDependOnTheMesh) {
  const Scenario scenario = with_pictures();
  auto small = scenario.start(1);
  Scenario other = with_pictures();
  other.axes = {{"pp", 2}, {"dp", 4}, {"cp", 1}, {"tp", 2}};
  auto large = other.start(2);
  ASSERT_TRUE(small->run(kSteps));
  ASSERT_TRUE(large->run(kSteps));
  EXPECT_EQ(small->consumer(0).content_chain(), large->consumer(0).content_chain());
  for (const auto& batch : large->delivered(15).batches) {  // the last stage: no pixels
    if (!batch->media) continue;
    for (const model::MediaSlab& slab : *batch->media) {
      EXPECT_EQ(slab.data.data, nullptr);
      EXPECT_FALSE(slab.items.empty());
    }
  }
}

void expect_survives(uint64_t usual, const Scenario& scenario, const Digest& expected) {
  const auto job = scenario.open();
  for_each_seed({usual}, [&](uint64_t seed) {
    SimCluster cluster(job, *scenario.objects, scenario.all_ranks(), scenario.options,
                       host::start_state(*job), seed, stormy(seed));
    ASSERT_TRUE(cluster.run(kSteps)) << "hangs";
    ASSERT_FALSE(cluster.failure()) << cluster.failure()->message();
    ASSERT_EQ(cluster.stream_hash(), expected);
  });
}

TEST(Media, RolesMayDieAtAnyTime) {
  Scenario scenario = with_pictures();
  scenario.axes = {{"dp", 2}, {"tp", 2}};
  scenario.spec.sources[1].loaders = 2;
  const Digest expected = hash_of(scenario, 1);
  expect_survives(30, scenario, expected);
}

void expect_resumes_at_every_microbatch(const Scenario& scenario) {
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

TEST(Media, ResumesAtEveryMicrobatch) {
  expect_resumes_at_every_microbatch(with_pictures());
  expect_resumes_at_every_microbatch(with_lists());
}

TEST(Media, APictureThatDoesNotDecodeIsAHoleEverywhere) {
  const Scenario scenario = with_pictures(9);
  const Digest expected = hash_of(scenario, 1);
  EXPECT_NE(expected, hash_of(with_pictures(), 1));
  for (uint64_t seed = 2; seed < 8; ++seed) {
    auto cluster = scenario.start(seed);
    ASSERT_TRUE(cluster->run(kSteps)) << "hangs";
    EXPECT_EQ(cluster->stream_hash(), expected);
    ASSERT_FALSE(cluster->quarantine().empty());
    for (const loader::QuarantineNote& note : cluster->quarantine()) {
      EXPECT_TRUE(note.late);
      EXPECT_EQ(note.row, 9u);
      EXPECT_NE(note.reason.find("shard mem:/corpus/pairs-0000"), std::string::npos) << note.reason;
      EXPECT_NE(note.reason.find("image"), std::string::npos) << note.reason;
    }
  }
}

Scenario decoded_at(model::DecodeAt where, uint64_t broken = ~uint64_t{0}) {
  Scenario scenario = with_pictures(broken);
  scenario.spec.sources[1].decode_at = where;
  return scenario;
}

TEST(PackedMedia, GiveTheSameStreamAsThoseDecodedByLoaders) {
  for (const uint64_t broken : {~uint64_t{0}, uint64_t{9}}) {
    const Digest expected = hash_of(decoded_at(model::DecodeAt::kLoader, broken), 1);
    Scenario packed = decoded_at(model::DecodeAt::kConstructor, broken);
    for (uint64_t seed = 1; seed < 8; ++seed) EXPECT_EQ(hash_of(packed, seed), expected);
    packed.spec.sources[1].loaders = 3;
    EXPECT_EQ(hash_of(packed, 5), expected);
  }
}

TEST(PackedMedia, WhatDoesNotDecodeIsNamedAsIfItsLoaderHadTried) {
  const auto notes = [](model::DecodeAt where) {
    const Scenario scenario = decoded_at(where, 9);
    auto cluster = scenario.start(3);
    EXPECT_TRUE(cluster->run(kSteps)) << "hangs";
    EXPECT_FALSE(cluster->failure()) << cluster->failure()->message();
    std::vector<std::string> reasons;
    for (const loader::QuarantineNote& note : cluster->quarantine()) {
      EXPECT_TRUE(note.late);
      reasons.push_back(std::to_string(note.row) + " " + note.reason);
    }
    return reasons;
  };
  const std::vector<std::string> expected = notes(model::DecodeAt::kLoader);
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(notes(model::DecodeAt::kConstructor), expected);
}

TEST(PackedMedia, RolesMayDieAtAnyTime) {
  const Digest expected = [] {
    Scenario plain = decoded_at(model::DecodeAt::kLoader, 9);
    plain.axes = {{"dp", 2}, {"tp", 2}};
    return hash_of(plain, 1);
  }();
  Scenario scenario = decoded_at(model::DecodeAt::kConstructor, 9);
  scenario.axes = {{"dp", 2}, {"tp", 2}};
  scenario.spec.sources[1].loaders = 2;
  expect_survives(40, scenario, expected);
}

Scenario with_function() {
  Scenario scenario = with_pictures();
  for (model::MediaField& field : scenario.spec.sources[1].media) {
    if (field.use) field.use->function.function = "sim:slow";
  }
  return scenario;
}

TEST(MediaFunctions, GiveOneStreamHoweverLateTheyAnswer) {
  const Digest expected = hash_of(with_function(), 1);
  EXPECT_NE(expected, hash_of(with_pictures(), 1));
  Scenario scenario = with_function();
  for (uint64_t seed = 2; seed < 8; ++seed) EXPECT_EQ(hash_of(scenario, seed), expected);
  scenario.spec.sources[1].loaders = 3;
  EXPECT_EQ(hash_of(scenario, 5), expected);
  scenario.spec.sources[1].decode_at = model::DecodeAt::kConstructor;  // never of such a field
  EXPECT_EQ(hash_of(scenario, 6), expected);
}

TEST(MediaFunctions, WhatTheyRefuseIsANamedHole) {
  const Scenario scenario = with_function();
  auto cluster = scenario.start(3);
  ASSERT_TRUE(cluster->run(kSteps)) << "hangs";
  ASSERT_FALSE(cluster->failure()) << cluster->failure()->message();
  ASSERT_FALSE(cluster->quarantine().empty());
  for (const loader::QuarantineNote& note : cluster->quarantine()) {
    EXPECT_TRUE(note.late);
    EXPECT_NE(note.reason.find("shard mem:/corpus/pairs-0000"), std::string::npos) << note.reason;
    EXPECT_NE(note.reason.find("media 'image': is not to its taste"), std::string::npos)
        << note.reason;
  }
}

TEST(MediaFunctions, ResumeAtEveryMicrobatch) {
  expect_resumes_at_every_microbatch(with_function());
}

TEST(MediaFunctions, RolesMayDieAtAnyTime) {
  Scenario scenario = with_function();
  scenario.axes = {{"dp", 2}, {"tp", 2}};
  const Digest expected = hash_of(scenario, 1);
  scenario.spec.sources[1].loaders = 2;
  expect_survives(40, scenario, expected);
}

using Pixels = std::map<SampleId, std::string>;

std::string rows_of(const model::MediaSlab& slab, const model::MediaItem& item) {
  const uint64_t row_bytes = slab.layout.row_bytes();
  return {static_cast<const char*>(slab.data.data) + item.row_begin * row_bytes,
          item.shape.rows * row_bytes};
}

// Every picture of the stream, by the document it belongs to.
Pixels all_pixels(const Scenario& scenario) {
  Pixels pixels;
  auto cluster = scenario.start(1);
  EXPECT_TRUE(cluster->run(kSteps));
  for (const Rank rank : cluster->ranks()) {
    for (const auto& batch : cluster->delivered(rank).batches) {
      if (!batch->media || batch->media->front().data.data == nullptr) continue;
      for (const model::MediaItem& item : batch->media->front().items) {
        pixels[batch->core->lineage[item.document].id] = rows_of(batch->media->front(), item);
      }
    }
  }
  return pixels;
}

Scenario with_encoders(uint64_t broken = ~uint64_t{0}) {
  Scenario scenario = with_pictures(broken);
  scenario.axes = {{"pp", 2}, {"dp", 2}, {"cp", 1}, {"tp", 1}};
  scenario.spec.strategy.encoder.emplace();
  model::CostTerm term;
  term.column = "image_patches";
  term.linear_q32 = int64_t{1} << 32;
  scenario.spec.strategy.encoder->cost.terms = {term};
  return scenario;
}

// Pixels are where they are encoded, all of them and in the order of the part; elsewhere only where
// they belong.
void check_encoded(const model::Microbatch& batch, const Pixels& pixels, Pixels* encoded) {
  if (batch.media) {
    for (const model::MediaSlab& slab : *batch.media) EXPECT_EQ(slab.data.data, nullptr);
  }
  ASSERT_NE(batch.encoder, nullptr);
  ASSERT_EQ(batch.encoded == nullptr, batch.encoder->samples.empty());
  if (!batch.encoded) return;
  const model::MediaSlab& slab = batch.encoded->front();
  ASSERT_EQ(slab.items.size(), batch.encoder->samples.size());
  for (uint32_t i = 0; i < slab.items.size(); ++i) {
    const model::Segment& sample = batch.encoder->samples[i];
    EXPECT_EQ(slab.items[i].document, i);
    EXPECT_EQ(slab.items[i].shape.rows, sample.count);
    EXPECT_EQ(rows_of(slab, slab.items[i]), pixels.at(sample.id));
    EXPECT_TRUE(encoded->emplace(sample.id, "").second) << "encoded twice";
  }
}

TEST(Media, GoToTheRanksThatEncodeThem) {
  Scenario plain = with_encoders();
  plain.spec.strategy.encoder.reset();
  const Pixels pixels = all_pixels(plain);
  const Scenario scenario = with_encoders();
  auto cluster = scenario.start(3);
  ASSERT_TRUE(cluster->run(kSteps));
  ASSERT_FALSE(cluster->failure()) << cluster->failure()->message();
  Pixels encoded;
  for (const Rank rank : cluster->ranks()) {
    for (const auto& batch : cluster->delivered(rank).batches) {
      ASSERT_NO_FATAL_FAILURE(check_encoded(*batch, pixels, &encoded)) << "rank " << rank;
    }
  }
  EXPECT_EQ(encoded.size(), pixels.size());
}

TEST(Media, AreEncodedTheSameWhoeverDies) {
  const Scenario scenario = with_encoders(9);
  const Digest expected = hash_of(scenario, 1);
  expect_survives(20, scenario, expected);
}

Scenario encoded_at(model::DecodeAt where, uint64_t broken = ~uint64_t{0}) {
  Scenario scenario = with_encoders(broken);
  scenario.spec.sources[1].decode_at = where;
  return scenario;
}

// Rows in the quarantine, each once, with the reason.
std::set<std::string> notes_of(const SimCluster& cluster) {
  std::set<std::string> out;
  for (const loader::QuarantineNote& note : cluster.quarantine()) {
    EXPECT_TRUE(note.late);
    out.insert(std::to_string(note.row) + " " + note.reason);
  }
  return out;
}

TEST(PackedMedia, AreDecodedByTheGroupsOfDocumentsAndOfEncoders) {
  const Scenario plain = encoded_at(model::DecodeAt::kLoader);
  const Digest expected = hash_of(plain, 1);
  Scenario packed = encoded_at(model::DecodeAt::kConstructor);
  for (uint64_t seed = 1; seed < 8; ++seed) EXPECT_EQ(hash_of(packed, seed), expected);
  packed.spec.sources[1].loaders = 3;
  EXPECT_EQ(hash_of(packed, 5), expected);
  Scenario without = plain;
  without.spec.strategy.encoder.reset();
  const Pixels pixels = all_pixels(without);
  auto cluster = packed.start(3);
  ASSERT_TRUE(cluster->run(kSteps));
  ASSERT_FALSE(cluster->failure()) << cluster->failure()->message();
  Pixels encoded;
  for (const Rank rank : cluster->ranks()) {
    for (const auto& batch : cluster->delivered(rank).batches) {
      ASSERT_NO_FATAL_FAILURE(check_encoded(*batch, pixels, &encoded)) << "rank " << rank;
    }
  }
  EXPECT_EQ(encoded.size(), pixels.size());
}

// A picture that does not decode is a hole where its document is, and zeros where it is encoded,
// mostly in another group.
TEST(PackedMedia, AHoleIsOneForBothGroups) {
  size_t seen = 0;
  for (const uint64_t broken : {5, 8, 9, 10, 13, 14}) {
    const Scenario at_loaders = encoded_at(model::DecodeAt::kLoader, broken);
    const Scenario at_constructors = encoded_at(model::DecodeAt::kConstructor, broken);
    auto plain = at_loaders.start(1);
    ASSERT_TRUE(plain->run(kSteps)) << "hangs";
    seen += plain->quarantine().empty() ? 0 : 1;
    for (uint64_t seed = 1; seed < 4; ++seed) {
      auto packed = at_constructors.start(seed);
      ASSERT_TRUE(packed->run(kSteps)) << "hangs";
      EXPECT_FALSE(packed->failure()) << packed->failure()->message();
      EXPECT_EQ(packed->stream_hash(), plain->stream_hash()) << "row " << broken;
      EXPECT_EQ(notes_of(*packed), notes_of(*plain));
    }
  }
  EXPECT_GE(seen, 2u) << "rows that were drawn";
}

// Of several pictures of a document one is broken: none of them is encoded.
TEST(PackedMedia, OneBrokenPictureSpoilsItsSample) {
  const auto at = [](model::DecodeAt where) {
    Scenario scenario = with_lists(7);
    scenario.axes = {{"pp", 2}, {"dp", 2}, {"cp", 1}, {"tp", 1}};
    scenario.spec.strategy = with_encoders().spec.strategy;
    scenario.spec.sources[1].decode_at = where;
    return scenario;
  };
  const Digest expected = hash_of(at(model::DecodeAt::kLoader), 1);
  EXPECT_NE(expected, hash_of(
                          [] {
                            Scenario whole = with_lists();
                            whole.axes = {{"pp", 2}, {"dp", 2}, {"cp", 1}, {"tp", 1}};
                            whole.spec.strategy = with_encoders().spec.strategy;
                            return whole;
                          }(),
                          1));
  for (uint64_t seed = 1; seed < 5; ++seed) {
    EXPECT_EQ(hash_of(at(model::DecodeAt::kConstructor), seed), expected);
  }
}

TEST(PackedMedia, AreEncodedTheSameWhoeverDies) {
  const Digest expected = hash_of(encoded_at(model::DecodeAt::kLoader, 9), 1);
  Scenario scenario = encoded_at(model::DecodeAt::kConstructor, 9);
  scenario.spec.sources[1].loaders = 2;
  expect_survives(40, scenario, expected);
}

TEST(Media, WhatCutsDocumentsIsRefused) {
  const auto refused = [](Scenario scenario) {
    const auto mesh = model::Mesh::make(scenario.axes);
    return open_in_memory(scenario.spec, scenario.delivery, *mesh, *scenario.objects, true)
        .status()
        .message();
  };
  Scenario split = with_pictures();
  split.spec.sources[1].over_length = model::OverLength::kSplit;
  EXPECT_NE(refused(split).find("over_length"), std::string::npos);
  Scenario concat = with_pictures();
  concat.spec.packing.method = model::Packing::kConcat;
  EXPECT_NE(refused(concat).find("concat"), std::string::npos);
  Scenario token = with_pictures();
  token.spec.sources[1].media[0].use->pad = 1000;
  EXPECT_NE(refused(token).find("vocabulary"), std::string::npos);
}

}  // namespace media_test
}  // namespace overlord::sim
