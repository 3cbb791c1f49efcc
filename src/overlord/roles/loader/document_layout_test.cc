#include "overlord/roles/loader/document_layout.h"

#include <gtest/gtest.h>

#include "overlord/base/rng.h"

namespace overlord::loader {
namespace {

OpenMediaField field_of(const char* name, std::optional<uint32_t> pad, bool in_text) {
  OpenMediaField field;
  field.name = name;
  field.use.pad = pad;
  field.use.in_text = in_text;
  return field;
}

PlannedBlob blob_of(size_t field, uint32_t tokens) {
  PlannedBlob blob;
  blob.field = field;
  blob.tokens = tokens;
  return blob;
}

model::TokenSpan span_of(const std::vector<uint16_t>& tokens) {
  return {tokens.data(), nullptr, static_cast<uint32_t>(tokens.size()), model::Element::kU16};
}

using Parts = std::vector<DocumentPart>;

TEST(DocumentLayout, EachPadIsThePlaceOfTheNextBlobOfItsField) {
  const std::vector<OpenMediaField> fields = {
      field_of("image", 7, true), field_of("other", 7, false), field_of("sound", 8, true)};
  PlannedMedia planned;
  planned.blobs = {blob_of(0, 4), blob_of(0, 2), blob_of(1, 3), blob_of(2, 5)};
  const std::vector<uint16_t> tokens = {7, 1, 8, 7, 2, 3};
  const auto parts = lay_out(fields, planned, span_of(tokens));
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  EXPECT_EQ(*parts, (Parts{{0, 0, 2}, {0, 0, 0}, {1, 1}, {0, 0, 3}, {0, 0, 1}, {4, 2}}));
}

TEST(DocumentLayout, OtherNumbersOfPadsAreRefusedWithBothCounts) {
  const std::vector<OpenMediaField> fields = {field_of("image", 7, true)};
  PlannedMedia planned;
  planned.blobs = {blob_of(0, 4), blob_of(0, 2)};
  for (const std::vector<uint16_t>& tokens :
       {std::vector<uint16_t>{1, 7, 2}, std::vector<uint16_t>{7, 7, 7}, std::vector<uint16_t>{}}) {
    const auto parts = lay_out(fields, planned, span_of(tokens));
    ASSERT_FALSE(parts.ok());
    EXPECT_EQ(parts.status().code(), Code::kBadData);
    const auto pads = std::count(tokens.begin(), tokens.end(), 7);
    EXPECT_NE(parts.status().message().find("media 'image': its tokens have the pad token 7 " +
                                            std::to_string(pads) + " times, and it has 2 blobs"),
              std::string::npos)
        << parts.status().message();
  }
}

// Against tokens and masks written out one by one.
TEST(DocumentLayout, LossSpansAreThoseOfTheTokensWrittenOut) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    uint64_t drawn = 0;
    const auto below = [&](uint64_t n) { return uniform_below(seed, ++drawn, 0, n); };
    const std::vector<OpenMediaField> fields = {field_of("a", 7, true),
                                                field_of("b", 8, below(2) == 0)};
    model::Source source;
    if (below(2) == 0) source.bos = 1;
    if (below(2) == 0) source.eod = 2;
    std::vector<uint16_t> tokens;
    std::vector<uint8_t> mask;
    for (uint64_t i = below(12); i > 0; --i) {
      tokens.push_back(static_cast<uint16_t>(below(2) == 0 ? 7 + below(2) : 3));
      mask.push_back(static_cast<uint8_t>(below(2)));
    }
    const bool masked = below(2) == 0;
    PlannedMedia planned;
    for (size_t field = 0; field < 2; ++field) {
      const auto blobs = fields[field].use.in_text
                             ? static_cast<uint64_t>(std::count(tokens.begin(), tokens.end(),
                                                                static_cast<uint16_t>(7 + field)))
                             : below(3);
      for (uint64_t i = 0; i < blobs; ++i) {
        planned.blobs.push_back(blob_of(field, static_cast<uint32_t>(1 + below(4))));
        planned.tokens += planned.blobs.back().tokens;
        planned.markers += fields[field].use.in_text ? 1 : 0;
      }
    }
    std::vector<bool> carries;  // by token of the document
    size_t next[2] = {0, 0};
    const auto put_blob = [&](size_t field) {
      size_t seen = 0;
      for (const PlannedBlob& blob : planned.blobs) {
        if (blob.field != field || seen++ != next[field]) continue;
        carries.insert(carries.end(), blob.tokens, false);
      }
      ++next[field];
    };
    if (source.bos) carries.push_back(true);
    for (const PlannedBlob& blob : planned.blobs) {
      if (!fields[blob.field].use.in_text) put_blob(blob.field);
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool pad = tokens[i] == 7 || (tokens[i] == 8 && fields[1].use.in_text);
      if (pad) put_blob(tokens[i] - 7u);
      if (!pad) carries.push_back(!masked || mask[i] != 0);
    }
    EXPECT_EQ(carries.size() - (source.bos ? 1 : 0),
              planned.length(static_cast<uint32_t>(tokens.size())));
    if (source.eod) carries.push_back(true);

    const auto parts = lay_out(fields, planned, span_of(tokens));
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    std::vector<model::LossSpan> spans;
    add_loss_spans(source, planned, *parts, masked ? mask.data() : nullptr, &spans);
    std::vector<bool> got(carries.size(), false);
    uint32_t end = 0;
    for (const model::LossSpan& span : spans) {
      EXPECT_TRUE(span.count > 0 && (span.first > end || end == 0)) << "spans touch, seed " << seed;
      end = span.first + span.count;
      ASSERT_LE(end, carries.size());
      for (uint32_t i = span.first; i < end; ++i) got[i] = true;
    }
    EXPECT_EQ(got, carries) << "seed " << seed;
  }
}

}  // namespace
}  // namespace overlord::loader
