#include "overlord/model/cost_model.h"

#include <gtest/gtest.h>

namespace overlord::model {
namespace {

CostModel two_terms() {
  return {CostKind::kSum, 7, {{"image_patches", 1, 2, 3, 4, 5}, {"tokens", 0, 11, 12, 0, 13}}};
}

std::string bytes_of(const CostModel& model) {
  ByteWriter out;
  write_cost_model(model, &out);
  return out.take();
}

TEST(CostModel, BytesAreGolden) {
  std::string expected("\x01\x04\x0e\x02\x0dimage_patches\x02\x04\x06\x08\x0a", 23);
  expected += std::string("\x06tokens\x00\x16\x18\x00\x1a", 12);
  EXPECT_EQ(bytes_of(two_terms()), expected);
}

TEST(CostModel, EveryFieldIsInTheBytes) {
  const std::string before = bytes_of(two_terms());
  CostModel changed = two_terms();
  changed.kind = CostKind::kVit;
  EXPECT_NE(bytes_of(changed), before);
  changed = two_terms();
  ++changed.bin_q32;
  EXPECT_NE(bytes_of(changed), before);
  int64_t CostTerm::* const fields[] = {&CostTerm::constant_q32, &CostTerm::linear_q32,
                                        &CostTerm::quadratic_q32, &CostTerm::constant_bytes_q16,
                                        &CostTerm::linear_bytes_q16};
  for (const auto field : fields) {
    changed = two_terms();
    ++(changed.terms[1].*field);
    EXPECT_NE(bytes_of(changed), before);
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

}  // namespace
}  // namespace overlord::model
