// What a job with media is refused for, and who decodes what.
#include "overlord/host/media_checks.h"

#include <gtest/gtest.h>

#include <functional>

#include "overlord/host/made_up_job_test.h"

namespace overlord::host {
namespace {

constexpr char kBytePatches[] = "patchify layout=vit patch=8";
constexpr char kFloatPatches[] = "normalise; patchify layout=vit patch=8";

model::Source with_fields(const std::string& name, std::vector<model::MediaField> fields) {
  model::Source source = picture_source(name);
  source.media = std::move(fields);
  return source;
}

void expect_media_refused(const std::function<void(model::JobSpec&, model::MediaUse&)>& change,
                          const std::string& says) {
  model::JobSpec spec;
  spec.sources = {with_fields("s", {picture_field("image", kBytePatches)})};
  ASSERT_TRUE(check_media(spec).ok()) << check_media(spec).message();
  change(spec, *spec.sources[0].media[0].use);
  expect_refused(check_media(spec), says);
  spec.sources[0].media[0].use.reset();
  EXPECT_TRUE(check_media(spec).ok()) << "bytes that do not travel ask for nothing";
}

TEST(CheckMedia, ADocumentWithMediaStaysWhole) {
  expect_media_refused(
      [](auto& spec, auto&) { spec.sources[0].over_length = model::OverLength::kTruncate; },
      "source s: over_length must be drop");
  expect_media_refused([](auto& spec, auto&) { spec.packing.method = model::Packing::kConcat; },
                       "packing.method: concat cuts documents");
  expect_media_refused([](auto& spec, auto&) { spec.strategy.atoms = model::Atoms::kSlices; },
                       "strategy.hybrid: cuts documents");
}

TEST(CheckMedia, PlaceholdersAreTokensOfTheVocabulary) {
  expect_media_refused([](auto&, auto& use) { use.pad = 1000; }, "token 1000 is not in the vocab");
  expect_media_refused([](auto&, auto& use) { use.before = 1001; }, "token 1001 is not in the");
  expect_media_refused([](auto&, auto& use) { use.after = 1002; }, "token 1002 is not in the");
  const auto without_pad = [](const auto& set) {
    expect_media_refused(
        [&set](auto&, auto& use) {
          use.pad.reset();
          set(use);
        },
        "media image");
  };
  without_pad([](auto& use) { use.before = 1; });
  without_pad([](auto& use) { use.after = 1; });
  without_pad([](auto& use) { use.pads = 1; });
  without_pad([](auto& use) { use.units_per_pad = 1; });
  without_pad([](auto& use) { use.in_text = true; });
}

TEST(CheckMedia, TwoFieldsInTheTextHaveTwoPads) {
  model::JobSpec spec;
  spec.sources = {with_fields(
      "s", {picture_field("image", kBytePatches), picture_field("other", kBytePatches)})};
  spec.sources[0].media[0].use->in_text = true;
  EXPECT_TRUE(check_media(spec).ok()) << "the other one stands before the text";
  spec.sources[0].media[1].use->in_text = true;
  expect_refused(check_media(spec), "media image: its pad token 7 is that of media other too");
  spec.sources[0].media[1].use->pad = 8;
  EXPECT_TRUE(check_media(spec).ok()) << check_media(spec).message();
}

TEST(MediaLayouts, OneNameIsOneLayoutWhereverItComesFrom) {
  std::vector<model::MediaLayout> layouts;
  const auto first = pictures(with_fields(
      "a", {picture_field("image", kBytePatches), picture_field("thumb", kBytePatches)}));
  const auto second = pictures(with_fields(
      "b", {picture_field("first", kFloatPatches), picture_field("image", kBytePatches)}));
  ASSERT_TRUE(add_media_layouts(*first, &layouts).ok());
  ASSERT_TRUE(add_media_layouts(*second, &layouts).ok());
  ASSERT_EQ(layouts.size(), 3u);
  EXPECT_EQ(layouts[0].name, "first");
  EXPECT_EQ(layouts[1].name, "image");
  EXPECT_EQ(layouts[2].name, "thumb");
  const auto third = pictures(with_fields("c", {picture_field("image", kFloatPatches)}));
  const Status refused = add_media_layouts(*third, &layouts);
  expect_refused(refused, "source c, media image: makes float32 [192] rows");
  expect_refused(refused, "another source makes uint8 [192]");
  EXPECT_TRUE(add_media_layouts(*made_up_rows(made_up_source("d"), 1), &layouts).ok());
}

// A job of one source of pictures, whose delivered field is the second that it declares.
OpenJob open_pictures(model::MediaField field) {
  OpenJob job;
  const auto source = pictures(with_fields("s", {{"cover", {"jpg"}}, std::move(field)}));
  job.spec.sources = {source->spec};
  job.sources = {source};
  EXPECT_TRUE(add_media_layouts(*source, &job.media).ok());
  return job;
}

TEST(EncodedField, IsTheOneWhoseColumnTheEncoderReads) {
  OpenJob job = open_pictures(picture_field("image", kBytePatches));
  EXPECT_FALSE(encodes_media(job)) << "no encoder";
  job.spec.strategy.encoder.emplace();
  for (const std::string column : {"image_patches", "image_count"}) {
    job.spec.strategy.encoder->column = column;
    EXPECT_EQ(encoded_field(job, *job.sources[0]), size_t{0}) << column;
    EXPECT_TRUE(encodes_media(job));
  }
  job.spec.strategy.encoder->column = "cover_count";
  EXPECT_FALSE(encodes_media(job)) << "of a field that does not travel";
}

TEST(DecodeLoads, AreWhatTheIndexKnowsOfSizes) {
  OpenJob floats = open_pictures(picture_field("image", kFloatPatches));
  const OpenJob bytes = open_pictures(picture_field("image", kBytePatches));
  const auto large = decode_loads(floats), small = decode_loads(bytes);
  ASSERT_EQ(large.size(), 1u);
  EXPECT_GT(large[0].rows, 0u);
  EXPECT_EQ(large[0].stored_bytes, small[0].stored_bytes);
  EXPECT_EQ(large[0].decoded_bytes, 4 * small[0].decoded_bytes);
  EXPECT_FALSE(large[0].encoded);
  floats.spec.strategy.encoder.emplace();
  floats.spec.strategy.encoder->column = "image_patches";
  EXPECT_TRUE(decode_loads(floats)[0].encoded);
}

TEST(DecodeLoads, AFieldWithAFunctionIsNotWeighed) {
  const auto load = [](const std::string& function) {
    OpenJob job = open_pictures(picture_field("image", kBytePatches));
    model::MediaField large =
        picture_field("large", "resize width=64 height=64; planes; normalise", 8);
    large.use->pads = 1;
    large.use->function.function = function;
    job.sources = {
        pictures(with_fields("s", {picture_field("image", kBytePatches), std::move(large)}))};
    return decode_loads(job)[0].decoded_bytes;
  };
  EXPECT_GT(load(""), 2 * load("module:name"));
}

TEST(PacksMedia, WhereItWasChosen) {
  OpenJob job = open_pictures(picture_field("image", kBytePatches));
  EXPECT_FALSE(packs_media(*job.sources[0])) << "nobody has chosen";
  for (const bool packs : {true, false}) {
    set_decoding(std::vector<plan::DecodeChoice>{{"s", packs, ""}}, &job.spec);
    auto told = std::make_shared<loader::OpenSource>();
    told->spec = job.spec.sources[0];
    EXPECT_FALSE(packs_media(*told)) << "no media";
    told->media = job.sources[0]->media;
    EXPECT_EQ(packs_media(*told), packs);
  }
}

TEST(MediaFunctions, AreAskedForByTheirPlaceInTheSource) {
  model::MediaField called = picture_field("image", kBytePatches);
  called.use->function.function = "module:name";
  const auto source = pictures(
      with_fields("s", {{"cover", {"jpg"}}, called, picture_field("plain", kBytePatches, 8)}));
  auto* const function = reinterpret_cast<runtime::MediaFunction*>(0x40);
  std::vector<size_t> asked;
  const auto found = media_functions(*source, [&](const model::Source&, size_t number) {
    asked.push_back(number);
    return function;
  });
  EXPECT_EQ(asked, std::vector<size_t>{1}) << "not for those that have none";
  EXPECT_EQ(found, (std::vector<runtime::MediaFunction*>{function, nullptr}));
}

TEST(MediaChains, LieWhereTheJobNumbersTheirFields) {
  OpenJob job = open_pictures(picture_field("image", kBytePatches));
  const auto other = pictures(with_fields("t", {picture_field("first", kFloatPatches)}));
  job.sources.push_back(other);
  ASSERT_TRUE(add_media_layouts(*other, &job.media).ok());
  EXPECT_EQ(media_numbers(job, *job.sources[0]), std::vector<uint32_t>{1});
  EXPECT_EQ(media_numbers(job, *other), std::vector<uint32_t>{0});
  const auto chains = media_chains(job);
  ASSERT_EQ(chains->size(), 2u);
  EXPECT_EQ((*chains)[0][0], nullptr) << "the source has no such field";
  EXPECT_EQ((*chains)[0][1], job.sources[0]->media->fields()[0].chain);
  EXPECT_EQ((*chains)[1][0], other->media->fields()[0].chain);
}

}  // namespace
}  // namespace overlord::host
