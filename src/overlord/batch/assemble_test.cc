#include "overlord/batch/assemble.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "overlord/base/rng.h"

namespace overlord::batch {
namespace {

using model::Element;
using model::Segment;

// Documents 0, 1, 2, ... with token i of document d = 100 * (d + 1) + i.
struct Documents {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<uint8_t>> masks;

  explicit Documents(const std::vector<uint32_t>& lengths) {
    for (size_t d = 0; d < lengths.size(); ++d) {
      tokens.emplace_back(lengths[d]);
      std::iota(tokens.back().begin(), tokens.back().end(), 100 * (static_cast<int32_t>(d) + 1));
      masks.emplace_back(lengths[d], 1);
    }
  }
  Piece piece(size_t d, uint32_t row, uint32_t first, uint32_t count, bool continues = false) {
    Piece out;
    out.segment.id.position = d;
    out.segment.first = first;
    out.segment.count = count;
    out.segment.flags = continues ? Segment::kContinues : 0;
    out.segment.targets = continues ? count : count - 1;
    out.row = row;
    out.span = {tokens[d].data(), nullptr, static_cast<uint32_t>(tokens[d].size()), Element::kI32};
    return out;
  }
};

AssembleSpec spec_of(uint32_t context, uint32_t rows) {
  AssembleSpec spec;
  spec.context = context;
  spec.rows = rows;
  spec.pad_token = 7;
  spec.specials.resize(1);
  return spec;
}

struct Assembled {
  model::MicrobatchCore core;
  std::vector<std::shared_ptr<const model::Slab>> slabs;

  std::vector<int32_t> field(model::FieldView model::Slab::* member, size_t slice = 0) const {
    const model::FieldView& view = (*slabs[slice]).*member;
    const auto* data = static_cast<const int32_t*>(view.data);
    return {data, data + view.size_bytes / sizeof(int32_t)};
  }
  std::vector<float> weights() const {
    const auto* data = static_cast<const float*>(slabs[0]->loss_weights.data);
    return {data, data + slabs[0]->loss_weights.size_bytes / sizeof(float)};
  }
};

Assembled assemble(const AssembleSpec& spec, const std::vector<Piece>& pieces) {
  const auto pool = runtime::BufferPool::make(1 << 20);
  Assembled out;
  fill_core(spec, pieces, &out.core);
  out.slabs = cut_slabs(spec, out.core, fill_whole(spec, pieces, model::kAllFields, *pool),
                        model::kAllFields, std::vector<bool>(spec.slices, true), *pool);
  return out;
}

TEST(Assemble, TokensTargetsWeightsAndPositions) {
  Documents docs({3, 4});
  const Assembled got = assemble(spec_of(8, 1), {docs.piece(0, 0, 0, 3), docs.piece(1, 0, 0, 4)});
  EXPECT_EQ(got.field(&model::Slab::tokens),
            (std::vector<int32_t>{100, 101, 102, 200, 201, 202, 203, 7}));
  EXPECT_EQ(got.field(&model::Slab::targets),
            (std::vector<int32_t>{101, 102, 7, 201, 202, 203, 7, 7}));
  EXPECT_EQ(got.weights(), (std::vector<float>{1, 1, 0, 1, 1, 1, 0, 0}));
  EXPECT_EQ(got.field(&model::Slab::positions), (std::vector<int32_t>{0, 1, 2, 0, 1, 2, 3, 0}));
  EXPECT_EQ(got.core.boundaries.cu_seqlens, (std::vector<int32_t>{0, 3, 7}));
  EXPECT_EQ(got.core.boundaries.cu_seqlens_padded, (std::vector<int32_t>{0, 3, 8}));
  EXPECT_EQ(got.core.boundaries.max_seqlen, 4);
  EXPECT_EQ(got.core.boundaries.target_tokens, 5u);
}

TEST(Assemble, ACutDocumentCarriesItsNextTokenAsLastTarget) {
  Documents docs({6});
  const Assembled got =
      assemble(spec_of(4, 2), {docs.piece(0, 0, 0, 4, true), docs.piece(0, 1, 4, 2)});
  EXPECT_EQ(got.field(&model::Slab::targets),
            (std::vector<int32_t>{101, 102, 103, 104, 105, 7, 7, 7}));
  EXPECT_EQ(got.weights(), (std::vector<float>{1, 1, 1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(got.field(&model::Slab::positions), (std::vector<int32_t>{0, 1, 2, 3, 0, 1, 0, 0}));
}

TEST(Assemble, SpecialTokensStandAroundTheDocument) {
  Documents docs({2});
  AssembleSpec spec = spec_of(6, 1);
  spec.specials[0] = {1, 2};
  Piece piece = docs.piece(0, 0, 0, 4);
  const Assembled whole = assemble(spec, {piece});
  EXPECT_EQ(whole.field(&model::Slab::tokens), (std::vector<int32_t>{1, 100, 101, 2, 7, 7}));
  EXPECT_EQ(whole.field(&model::Slab::targets), (std::vector<int32_t>{100, 101, 2, 7, 7, 7}));
  piece.segment.first = 3;  // only the eod is left of a cut document
  piece.segment.count = 1;
  EXPECT_EQ(assemble(spec, {piece}).field(&model::Slab::tokens),
            (std::vector<int32_t>{2, 7, 7, 7, 7, 7}));
}

TEST(Assemble, TheWeightIsThatOfTheTarget) {
  Documents docs({4});
  docs.masks[0] = {0, 0, 1, 1};
  Piece piece = docs.piece(0, 0, 0, 4);
  piece.span.mask = docs.masks[0].data();
  EXPECT_EQ(assemble(spec_of(4, 1), {piece}).weights(), (std::vector<float>{0, 1, 1, 0}));
}

TEST(Assemble, AHoleIsPaddingWithoutWeight) {
  Documents docs({3});
  Piece hole = docs.piece(0, 0, 0, 3);
  hole.span = {};
  const Assembled got = assemble(spec_of(4, 1), {hole});
  EXPECT_EQ(got.field(&model::Slab::tokens), (std::vector<int32_t>{7, 7, 7, 7}));
  EXPECT_EQ(got.weights(), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(got.core.boundaries.target_tokens, 2u) << "counts as planned";
}

TEST(Assemble, AnEmptyBinIsOneEmptyDocument) {
  Documents docs({3});
  const Assembled got = assemble(spec_of(4, 3), {docs.piece(0, 1, 0, 3)});
  EXPECT_EQ(got.core.boundaries.cu_seqlens, (std::vector<int32_t>{0, 0, 3, 3}));
  EXPECT_EQ(got.core.boundaries.cu_seqlens_padded, (std::vector<int32_t>{0, 4, 8, 12}));
}

TEST(Assemble, AlignedDocumentsStartAtMultiples) {
  Documents docs({3, 2});
  AssembleSpec spec = spec_of(8, 1);
  spec.align = 4;
  const Assembled got = assemble(spec, {docs.piece(0, 0, 0, 3), docs.piece(1, 0, 0, 2)});
  EXPECT_EQ(got.field(&model::Slab::tokens),
            (std::vector<int32_t>{100, 101, 102, 7, 200, 201, 7, 7}));
  EXPECT_EQ(got.core.boundaries.cu_seqlens_padded, (std::vector<int32_t>{0, 4, 8}));
}

template <typename T>
void check_widening(Element element) {
  std::vector<T> values(37);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i * 3);
  Piece piece;
  piece.segment.count = 37;
  piece.segment.targets = 36;
  piece.span = {values.data(), nullptr, 37, element};
  const Assembled got = assemble(spec_of(37, 1), {piece});
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(got.field(&model::Slab::tokens)[i], static_cast<int32_t>(values[i]));
  }
}

TEST(Assemble, TakesEveryIntegerWidth) {
  check_widening<uint8_t>(Element::kU8);
  check_widening<int8_t>(Element::kI8);
  check_widening<uint16_t>(Element::kU16);
  check_widening<int16_t>(Element::kI16);
  check_widening<uint32_t>(Element::kU32);
  check_widening<int32_t>(Element::kI32);
  check_widening<uint64_t>(Element::kU64);
  check_widening<int64_t>(Element::kI64);
}

// Independent statement of the rule: rank r holds chunks r and 2n - 1 - r of every unit.
std::vector<int32_t> zigzag_by_hand(const std::vector<int32_t>& values,
                                    const std::vector<int32_t>& starts, uint32_t slice,
                                    uint32_t slices) {
  std::vector<int32_t> out;
  for (size_t unit = 0; unit + 1 < starts.size(); ++unit) {
    const int32_t chunk = (starts[unit + 1] - starts[unit]) / static_cast<int32_t>(2 * slices);
    for (const uint32_t c : {slice, 2 * slices - 1 - slice}) {
      const auto begin = values.begin() + starts[unit] + static_cast<int32_t>(c) * chunk;
      out.insert(out.end(), begin, begin + chunk);
    }
  }
  return out;
}

TEST(Slicing, MatchesTheRuleForRandomDocuments) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Documents docs({5, 9, 30, 2, 17});
    std::vector<Piece> pieces;
    uint32_t row = 0, used = 0;
    for (size_t d = 0; d < 5; ++d) {
      const auto count =
          static_cast<uint32_t>(1 + uniform_below(seed, d, 0, docs.tokens[d].size()));
      const uint32_t padded = (count + 3) / 4 * 4;
      if (used + padded > 32) {
        ++row;
        used = 0;
      }
      pieces.push_back(docs.piece(d, row, 0, count));
      used += padded;
    }
    AssembleSpec spec = spec_of(32, row + 1);
    spec.align = 4;
    const Assembled whole = assemble(spec, pieces);
    const std::vector<int32_t> values = whole.field(&model::Slab::tokens);
    spec.slices = 2;
    spec.slicing = model::Slicing::kDocumentZigzag;
    const Assembled by_document = assemble(spec, pieces);
    spec.slicing = model::Slicing::kSequenceZigzag;
    const Assembled by_sequence = assemble(spec, pieces);
    std::vector<int32_t> row_starts;
    for (uint32_t r = 0; r <= spec.rows; ++r) row_starts.push_back(static_cast<int32_t>(r * 32));
    for (uint32_t slice = 0; slice < 2; ++slice) {
      EXPECT_EQ(by_document.field(&model::Slab::tokens, slice),
                zigzag_by_hand(values, whole.core.boundaries.cu_seqlens_padded, slice, 2));
      EXPECT_EQ(by_sequence.field(&model::Slab::tokens, slice),
                zigzag_by_hand(values, row_starts, slice, 2));
    }
  }
}

TEST(BatchDigest, SeesOnlyTheFieldsOfTheView) {
  Documents docs({3, 4});
  const Assembled one = assemble(spec_of(8, 1), {docs.piece(0, 0, 0, 3)});
  docs.tokens[0][2] = 5;  // last token: also the last target but one
  const Assembled two = assemble(spec_of(8, 1), {docs.piece(0, 0, 0, 3)});
  EXPECT_NE(batch_digest(one.core, one.slabs[0].get(), model::kFieldTokens),
            batch_digest(two.core, two.slabs[0].get(), model::kFieldTokens));
  EXPECT_EQ(batch_digest(one.core, one.slabs[0].get(), model::kFieldPositions),
            batch_digest(two.core, two.slabs[0].get(), model::kFieldPositions));
}

}  // namespace
}  // namespace overlord::batch
