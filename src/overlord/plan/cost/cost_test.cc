#include "overlord/plan/cost/cost.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>

#include "overlord/base/fixed_point.h"
#include "overlord/base/rng.h"
#include "overlord/plan/cost/cost_presets.h"
#include "overlord/plan/cost/cost_shape.h"
#include "overlord/plan/made_up_cost_test.h"

namespace overlord::plan {
namespace {

using model::CostModel;
using model::CostTerm;

constexpr int64_t kOne = int64_t{1} << model::kCostBits;
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

std::vector<int64_t> costs(const CostModel& model, std::vector<int64_t> lengths) {
  const std::array<LengthColumn, 1> columns = {{{model.terms[0].column, lengths}}};
  Result<std::vector<int64_t>> out = evaluate(model, columns);
  EXPECT_TRUE(out.ok()) << out.status().message();
  return out.ok() ? *out : std::vector<int64_t>();
}

std::string failure(const CostModel& model, std::vector<int64_t> lengths) {
  const std::array<LengthColumn, 1> columns = {{{"tokens", lengths}}};
  return evaluate(model, columns).status().message();
}

void expect_in(std::string_view part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Cost, TokensCountTokens) {
  EXPECT_EQ(costs(tokens_cost(), {0, 1, 4096, 0xffffffff}),
            (std::vector<int64_t>{0, 1, 4096, 0xffffffff}));
}

TEST(Cost, GoldenQuadratic) {
  // 5 + 0.25 s + 0.125 s^2, rounded half up.
  const CostModel model = quadratic_cost("tokens", 5 * kOne, kOne / 4, kOne / 8);
  EXPECT_EQ(costs(model, {0, 1, 2, 3, 4, 100, 2'000'000}),
            (std::vector<int64_t>{0, 5, 6, 7, 8, 1280, 500'000'500'005}));
}

TEST(Cost, HalvesRoundUpAndLessDoesNot) {
  CostModel model = quadratic_cost("tokens", kOne / 2, 0, 0);
  EXPECT_EQ(costs(model, {1}), std::vector<int64_t>{1});
  model.terms[0].constant_q32 = kOne / 2 - 1;
  EXPECT_EQ(costs(model, {1}), std::vector<int64_t>{0});
}

TEST(Cost, TheSumOfTermsIsRoundedOnce) {
  const std::array<CostModel, 2> parts = {quadratic_cost("a", kOne / 4, 0, 0),
                                          quadratic_cost("b", kOne / 4, 0, 0)};
  const CostModel both = sum_cost(parts);
  const std::vector<int64_t> a = {1, 1, 0, 0};
  const std::vector<int64_t> b = {1, 0, 1, 0};
  const std::array<LengthColumn, 3> columns = {{{"unused", a}, {"b", b}, {"a", a}}};
  EXPECT_EQ(*evaluate(both, columns), (std::vector<int64_t>{1, 0, 0, 0}));
}

// Schoolbook arithmetic on 32-bit limbs, so that the reference shares nothing with what it judges.
struct Limbs {
  std::array<uint64_t, 8> limb{};
  void add(uint64_t value, size_t at) {
    for (; value > 0; ++at) {
      limb[at] += value & 0xffffffff;
      value = (value >> 32) + (limb[at] >> 32);
      limb[at] &= 0xffffffff;
    }
  }
  Limbs times(uint64_t factor) const {
    Limbs out;
    for (size_t i = 0; i + 2 < limb.size(); ++i) {
      out.add(limb[i] * (factor & 0xffffffff), i);
      out.add(limb[i] * (factor >> 32), i + 1);
    }
    return out;
  }
  void add(const Limbs& other) {
    for (size_t i = 0; i < limb.size(); ++i) add(other.limb[i], i);
  }
};

TEST(Cost, EqualsSchoolbookArithmeticOrRefuses) {
  int fitting = 0;
  int refused = 0;
  for (uint64_t trial = 0; trial < 20'000; ++trial) {
    const uint64_t key = derive_key(5, "cost", trial);
    const auto draw = [key](uint64_t which, uint64_t most_bits) {
      return random_u64(key, which) >> (64 - 1 - uniform_below(key, which, 1, most_bits));
    };
    const uint64_t constant = draw(0, 63);
    const uint64_t linear = draw(1, 63);
    const uint64_t quadratic = draw(2, 63);
    const uint64_t length = 1 + draw(3, 32) % 0xffffffff;
    Limbs sum;
    sum.add(quadratic, 0);
    sum = sum.times(length);
    sum.add(linear, 0);
    sum = sum.times(length);
    sum.add(constant, 0);
    sum.add(uint64_t{1} << 31, 0);  // half
    const bool fits = sum.limb[3] == 0 && sum.limb[4] == 0 && sum.limb[2] < 0x80000000;
    const auto expected = static_cast<int64_t>(sum.limb[2] << 32 | sum.limb[1]);
    const CostModel model =
        quadratic_cost("tokens", static_cast<int64_t>(constant), static_cast<int64_t>(linear),
                       static_cast<int64_t>(quadratic));
    const std::vector<int64_t> lengths = {static_cast<int64_t>(length)};
    const std::array<LengthColumn, 1> columns = {{{"tokens", lengths}}};
    const Result<std::vector<int64_t>> found = evaluate(model, columns);
    ASSERT_EQ(found.ok(), fits) << trial;
    if (fits) {
      ASSERT_EQ((*found)[0], expected) << trial;
    } else {
      expect_in("do not fit 63 bits", found.status().message());
    }
    ++(fits ? fitting : refused);
  }
  EXPECT_GT(fitting, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(Cost, TheLargestCostFitsAndOneMoreDoesNot) {
  CostModel model = quadratic_cost("tokens", 0, kOne, 0);
  model.terms[0].linear_q32 = kMaxInt64;  // 2^31 ns less 2^-32 per token
  expect_in("row 1: length 4294967295",
            failure(quadratic_cost("tokens", 0, kMaxInt64, kOne), {3, 0xffffffff}));
  EXPECT_EQ(costs(model, {0xffffffff}), std::vector<int64_t>{9223372034707292159});
  // With every coefficient at its largest, two terms must not wrap around either.
  CostModel largest{model::CostKind::kSum,
                    kMaxInt64,
                    {{"a", kMaxInt64, kMaxInt64, kMaxInt64, kMaxInt64, kMaxInt64},
                     {"b", kMaxInt64, kMaxInt64, kMaxInt64, kMaxInt64, kMaxInt64}}};
  const std::vector<int64_t> longest = {0xffffffff};
  const std::array<LengthColumn, 2> columns = {{{"a", longest}, {"b", longest}}};
  expect_in("nanoseconds do not fit", evaluate(largest, columns).status().message());
  expect_in("bytes do not fit", evaluate_bytes(largest, columns).status().message());
}

TEST(Cost, OneTermMayTakeNearlyAll) {
  const std::array<CostModel, 2> parts = {quadratic_cost("a", 0, kMaxInt64, 0), tokens_cost("b")};
  const std::vector<int64_t> longest = {0xffffffff, 0xffffffff, 0xffffffff};
  const std::vector<int64_t> rest = {0, 2'147'483'648, 2'147'483'649};
  std::array<LengthColumn, 2> columns = {{{"a", longest}, {"b", rest}}};
  expect_in("row 2", evaluate(sum_cost(parts), columns).status().message());
  for (LengthColumn& column : columns) column.lengths = column.lengths.first(2);
  EXPECT_EQ(*evaluate(sum_cost(parts), columns),
            (std::vector<int64_t>{9223372034707292159, kMaxInt64}));
}

TEST(Cost, BadColumnsAreNamed) {
  const CostModel model = tokens_cost();
  expect_in("a length is negative: column 'tokens', row 2: length -1", failure(model, {4, 5, -1}));
  expect_in("2^32 or more: column 'tokens', row 0: length 4294967296",
            failure(model, {int64_t{1} << 32}));
  const std::vector<int64_t> two = {1, 2};
  const std::vector<int64_t> three = {1, 2, 3};
  const std::array<LengthColumn, 2> columns = {{{"patches", two}, {"frames", two}}};
  expect_in("'tokens'; there are 'patches', 'frames'", evaluate(model, columns).status().message());
  expect_in("there are none", evaluate(model, {}).status().message());
  const std::array<LengthColumn, 2> uneven = {{{"tokens", two}, {"frames", three}}};
  expect_in("'frames' has 3 rows, 'tokens' has 2", evaluate(model, uneven).status().message());
  EXPECT_EQ(costs(model, {}), std::vector<int64_t>{});
}

TEST(Cost, LongerNeverCostsLess) {
  for (const CostPreset& preset : cost_presets()) {
    const CostModel model = *preset_cost(preset.name);
    std::vector<int64_t> lengths(20'000);
    for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<int64_t>(i * i / 97);
    const std::vector<int64_t> found = costs(model, lengths);
    for (size_t i = 1; i < found.size(); ++i) ASSERT_GE(found[i], found[i - 1]) << i;
  }
}

TEST(Cost, BytesAreLinear) {
  CostModel model = tokens_cost();
  model.terms[0].constant_bytes_q16 = 100 << model::kBytesBits;
  model.terms[0].linear_bytes_q16 = (int64_t{3} << model::kBytesBits) / 2;
  const std::vector<int64_t> lengths = {0, 1, 2, 1'000'001};
  const std::array<LengthColumn, 1> columns = {{{"tokens", lengths}}};
  EXPECT_EQ(*evaluate_bytes(model, columns), (std::vector<int64_t>{0, 102, 103, 1'500'102}));
}

TEST(BinCost, IsTheSumAndTheBinsOwnCost) {
  CostModel model = tokens_cost();
  model.bin_q32 = 9 * kOne + kOne / 2;
  const std::vector<int64_t> samples = {1, 2, 3, 4};
  const std::vector<uint32_t> ends = {2, 2, 4};
  EXPECT_EQ(*bin_costs(model, samples, ends), (std::vector<int64_t>{13, 0, 17}));
  EXPECT_EQ(*bin_cost(model, {}), 0);
  const std::vector<int64_t> huge = {kMaxInt64, 1};
  expect_in("it has 2 samples", bin_cost(model, huge).status().message());
  const std::vector<uint32_t> past = {2, 5};
  const std::vector<uint32_t> falling = {2, 1};
  expect_in("got 5 after 2", bin_costs(model, samples, past).status().message());
  expect_in("got 1 after 2", bin_costs(model, samples, falling).status().message());
}

TransformerShape small_shape() {
  TransformerShape shape;
  shape.hidden = 8;
  shape.layers = 3;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.ffn = 10;
  shape.vocabulary = 100;
  shape.flops_per_second = 1'000'000'000;  // an operation takes a nanosecond
  shape.attention_flops_per_second = 2'000'000'000;
  return shape;
}

TEST(TransformerCost, CountsByHand) {
  TransformerShape shape = small_shape();
  // Layer: queries and output 128, keys and values 64, feed-forward 240 weights; head 800.
  // 6 operations per weight; pairs: 3 layers x 2 x 8 x 3 passes at half a nanosecond.
  CostTerm term = transformer_cost(shape)->terms[0];
  EXPECT_EQ(term.linear_q32, (3 * 432 + 800) * 6 * kOne);
  EXPECT_EQ(term.quadratic_q32, 72 * kOne);
  EXPECT_EQ(term.constant_q32, 0);
  // Values: 6 x 8 + 2 x 4 + 3 x 10 = 86 of two bytes in 3 layers, 100 logits of six.
  EXPECT_EQ(term.linear_bytes_q16, (3 * 86 * 2 + 600) << model::kBytesBits);

  shape.tp = 2;
  shape.pp = 2;  // two of three layers, and the head
  term = transformer_cost(shape)->terms[0];
  EXPECT_EQ(term.linear_q32, (2 * 432 + 800) * 3 * kOne);
  EXPECT_EQ(term.quadratic_q32, 24 * kOne);

  shape = small_shape();
  shape.causal = false;
  shape.gated = false;
  shape.experts = 8;
  shape.experts_active = 2;
  shape.vocabulary = 0;
  term = transformer_cost(shape)->terms[0];
  EXPECT_EQ(term.linear_q32, 3 * (192 + 2 * 160 + 64) * 6 * kOne);
  EXPECT_EQ(term.quadratic_q32, 144 * kOne);
}

TEST(TransformerCost, RefusesWhatCannotBe) {
  const auto message = [](auto change) {
    TransformerShape shape = small_shape();
    change(&shape);
    return transformer_cost(shape).status().message();
  };
  expect_in("hidden must be between 1", message([](auto* shape) { shape->hidden = 0; }));
  expect_in("heads must divide hidden; got heads 3",
            message([](auto* shape) { shape->heads = 3; }));
  expect_in("kv_heads must divide heads", message([](auto* shape) { shape->kv_heads = 3; }));
  expect_in("experts_active must be between 1 and 1; got 2",
            message([](auto* shape) { shape->experts_active = 2; }));
  expect_in("pp must be between 1 and 3; got 4", message([](auto* shape) { shape->pp = 4; }));
  expect_in("flops_per_second must", message([](auto* shape) { shape->flops_per_second = 0; }));
  expect_in("names no column", message([](auto* shape) { shape->column = ""; }));
  expect_in("63 bits hold", message([](auto* shape) {
              shape->hidden = shape->ffn = shape->layers = shape->experts = int64_t{1} << 30;
              shape->experts_active = shape->vocabulary = int64_t{1} << 30;
            }));
}

TEST(VitCost, ImagesOfEqualSizeAreLinear) {
  VitShape shape;
  shape.hidden = 8;
  shape.layers = 2;
  shape.ffn = 16;
  shape.flops_per_second = shape.attention_flops_per_second = 1'000'000'000;
  const CostModel one = *vit_cost(shape);
  EXPECT_EQ(one.terms[0].column, "image_patches");
  EXPECT_EQ(one.terms[0].linear_q32, 2 * (4 * 64 + 2 * 128) * 6 * kOne);
  EXPECT_EQ(one.terms[0].quadratic_q32, 2 * 4 * 8 * 3 * kOne);
  shape.patches = 256;
  const CostModel many = *vit_cost(shape);
  EXPECT_EQ(many.terms[0].quadratic_q32, 0);
  const int64_t image = costs(one, {256})[0];
  EXPECT_EQ(costs(many, {256, 512, 768}), (std::vector<int64_t>{image, 2 * image, 3 * image}));
  shape.patches = -1;
  expect_in("patches must be", vit_cost(shape).status().message());
}

TEST(PresetCost, LayersAndDegreesScaleALayer) {
  const CostPreset& preset = cost_presets()[0];
  EXPECT_EQ(preset.name, "llama-12b");
  const CostModel layer = *preset_cost("llama-12b", 1);
  EXPECT_EQ(layer.terms[0].linear_q32, preset.linear_q32);
  EXPECT_EQ(layer.bin_q32, preset.bin_q32);
  EXPECT_EQ(preset_cost("llama-12b")->terms[0].linear_q32, 45 * preset.linear_q32);
  const CostModel part = *preset_cost("llama-12b", 0, 2, 4);  // 12 of 45 layers, halved
  EXPECT_EQ(part.terms[0].linear_q32, 6 * preset.linear_q32);
  EXPECT_EQ(part.bin_q32, 12 * preset.bin_q32);
  expect_in("known are llama-12b, mixtral-8x7b", preset_cost("llama").status().message());
  expect_in("got layers 45, tp 0", preset_cost("llama-12b", 0, 0).status().message());
  expect_in("pp 46", preset_cost("llama-12b", 0, 1, 46).status().message());
}

// Shapes and measurements must agree, or the default speeds say nothing.
TEST(PresetCost, ShapesAtTheDefaultSpeedsComeNear) {
  for (const CostPreset& preset : cost_presets()) {
    TransformerShape shape;
    shape.hidden = preset.hidden;
    shape.layers = preset.layers;
    shape.heads = preset.heads;
    shape.kv_heads = preset.kv_heads;
    shape.ffn = preset.ffn;
    shape.gated = shape.causal = !preset.vit;
    if (preset.vit) shape.attention_flops_per_second = kUnmaskedFlopsPerSecond;
    const CostTerm counted = transformer_cost(shape)->terms[0];
    const CostTerm measured = preset_cost(preset.name)->terms[0];
    const auto near = [](int64_t a, int64_t b) {
      return Int128{a} * 8 <= Int128{b} * 9 && Int128{b} * 8 <= Int128{a} * 9;
    };
    EXPECT_TRUE(near(counted.linear_q32, measured.linear_q32)) << preset.name;
    EXPECT_TRUE(near(counted.quadratic_q32, measured.quadratic_q32)) << preset.name;
  }
}

}  // namespace
}  // namespace overlord::plan
