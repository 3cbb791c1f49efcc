#include "overlord/model/cost_model.h"

#include <gtest/gtest.h>

#include <limits>

namespace overlord::model {
namespace {

CostModel two_terms() {
  return {CostKind::kSum, 7, {{"image_patches", 1, 2, 3, 4, 5}, {"tokens", 0, 11, 12, 0, 13}}};
}

TEST(CostModel, RoundTripsThroughBytes) {
  CostModel model = two_terms();
  model.terms[1].quadratic_q32 = std::numeric_limits<int64_t>::max();
  ByteWriter out;
  write_cost_model(model, &out);
  ByteReader in(out.bytes());
  const Result<CostModel> read = read_cost_model(&in);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, model);
  EXPECT_TRUE(in.at_end());
  for (size_t size = 0; size < out.size(); ++size) {  // a cut record is an error, never a model
    ByteReader cut(std::string_view(out.bytes()).substr(0, size));
    EXPECT_FALSE(read_cost_model(&cut).ok()) << size;
  }
}

TEST(CostModel, BytesAreGolden) {
  ByteWriter out;
  write_cost_model(two_terms(), &out);
  std::string expected("\x01\x04\x0e\x02\x0dimage_patches\x02\x04\x06\x08\x0a", 23);
  expected += std::string("\x06tokens\x00\x16\x18\x00\x1a", 12);
  EXPECT_EQ(out.bytes(), expected);
}

TEST(CostModel, OtherFormatsAndKindsAreRefused) {
  ByteWriter out;
  write_cost_model(two_terms(), &out);
  std::string bytes = out.bytes();
  bytes[0] = 2;
  ByteReader newer(bytes);
  EXPECT_EQ(read_cost_model(&newer).status().code(), Code::kVersionMismatch);
  bytes[0] = 1;
  bytes[1] = 5;
  ByteReader strange(bytes);
  EXPECT_EQ(read_cost_model(&strange).status().code(), Code::kBadData);
}

TEST(CostModel, EveryFieldIsInTheDigest) {
  const Digest before = cost_model_digest(two_terms());
  EXPECT_EQ(cost_model_digest(two_terms()), before);
  CostModel changed = two_terms();
  changed.kind = CostKind::kVit;
  EXPECT_NE(cost_model_digest(changed), before);
  changed = two_terms();
  ++changed.bin_q32;
  EXPECT_NE(cost_model_digest(changed), before);
  int64_t CostTerm::* const fields[] = {&CostTerm::constant_q32, &CostTerm::linear_q32,
                                        &CostTerm::quadratic_q32, &CostTerm::constant_bytes_q16,
                                        &CostTerm::linear_bytes_q16};
  for (const auto field : fields) {
    changed = two_terms();
    ++(changed.terms[1].*field);
    EXPECT_NE(cost_model_digest(changed), before);
  }
}

TEST(CostModel, ChecksSayWhatIsWrong) {
  const auto message = [](const CostModel& model) { return check_cost_model(model).message(); };
  EXPECT_TRUE(check_cost_model(two_terms()).ok());
  EXPECT_NE(message({}).find("no term"), std::string::npos);
  CostModel model = two_terms();
  model.terms[1].linear_q32 = -1;
  EXPECT_NE(message(model).find("column 'tokens', linear_q32 is -1"), std::string::npos);
  model = two_terms();
  model.bin_q32 = -4;
  EXPECT_NE(message(model).find("bin_q32 is -4"), std::string::npos);
  model = two_terms();
  model.terms[0].column = "tokens";
  EXPECT_NE(message(model).find("each column once"), std::string::npos);
  model.terms[0].column = "";
  EXPECT_NE(message(model).find("names no column"), std::string::npos);
  model = two_terms();
  model.terms.resize(kMaxCostTerms + 1);
  EXPECT_NE(message(model).find("more than 64 terms"), std::string::npos);
}

TEST(CostModel, KindsHaveNames) {
  for (const char* name : {"tokens", "quadratic", "transformer", "vit", "sum"}) {
    EXPECT_EQ(cost_kind_name(*cost_kind_of(name)), name);
  }
  EXPECT_NE(cost_kind_of("token").status().message().find("got 'token'"), std::string::npos);
}

}  // namespace
}  // namespace overlord::model
