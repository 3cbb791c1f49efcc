#include "overlord/protocol/fields/field_codec.h"

#include <gtest/gtest.h>

#include "overlord/protocol/fields/job_fields.h"
#include "overlord/protocol/fields/message_fields.h"
#include "overlord/protocol/fields/plan_fields.h"
#include "overlord/protocol/fields/random_fields_test.h"
#include "overlord/protocol/journal/record_fields.h"

namespace overlord::protocol {
namespace {

template <typename T>
class EveryStruct : public testing::Test {};

using Listed = testing::Types<
    SampleId, model::Versions, model::ClientView, model::ViewTable, model::PlanReport, model::Layer,
    model::Plan, model::CostTerm, model::CostModel, model::PackingSpec, model::WindowSpec,
    model::MixtureStage, model::ControllerSpec, model::Mixture, model::Strategy, model::Tokenizer,
    model::SourceLimits, model::Source, model::JobSpec, model::DeliverySpec, model::RuntimeOptions,
    model::Axis, AllowedChanges, JobFile, Address, MetaGrant, model::MetaColumn, model::BadRow,
    model::MetaWindow, MetaPosted, Fetch, Get, Acknowledged, StreamFailed, LateBad, Report,
    ReportAnswered, model::Boundaries, model::MicrobatchCore, PeerRestarted, TermPromised,
    model::HdpModel, model::HdpSpec, model::HdpGroup, model::HdpLayer, model::EncoderStrategy,
    model::RowFilter, model::CalloutFunction, model::Exchange, model::EncoderPlan,
    model::EncoderPart, JournalStart, PlanRecord, LateBadRecord, FeedbackRecord, TreeRecord,
    CalloutRecord, FailureRecord, RetiredRecord, OwnersRecord>;
TYPED_TEST_SUITE(EveryStruct, Listed);

// Fields that the receiver has already and puts there itself.
template <typename T>
constexpr size_t kKnownThere = 0;
template <>
constexpr size_t kKnownThere<model::ViewTable> = 1;  // encoder: follows from the strategy
template <>
constexpr size_t kKnownThere<model::MicrobatchCore> = 1;  // hdp: the plan's
template <>
constexpr size_t kKnownThere<model::EncoderPlan> = 1;  // table: the views'

// A field that is bound by name and not handed on would be lost on the way.
TYPED_TEST(EveryStruct, HandsOnEveryField) {
  EXPECT_EQ(listed_fields<TypeParam>() + kKnownThere<TypeParam>, field_count<TypeParam>());
}

TYPED_TEST(EveryStruct, SurvivesARoundTripWithEveryFieldSet) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto value = RandomFields(seed).make<TypeParam>();
    ByteWriter writer;
    FieldWriter write(&writer);
    write(value);
    ByteReader reader(writer.bytes());
    FieldReader read(&reader);
    TypeParam decoded{};
    read(decoded);
    ASSERT_TRUE(read.status("value").ok()) << "seed " << seed;
    ByteWriter again;
    FieldWriter rewrite(&again);
    rewrite(decoded);
    ASSERT_EQ(again.bytes(), writer.bytes()) << "seed " << seed;
  }
}

template <typename T>
bool reads(std::string_view bytes) {
  ByteReader reader(bytes);
  FieldReader read(&reader);
  T value{};
  read(value);
  return read.status("value").ok();
}

TEST(FieldReader, RefusesWhatNoWriterWrites) {
  EXPECT_TRUE(reads<bool>(std::string_view("\x01", 1)));
  EXPECT_FALSE(reads<bool>(std::string_view("\x02", 1)));
  EXPECT_FALSE(reads<model::Shuffle>(std::string_view("\x03", 1)));
  EXPECT_FALSE(reads<uint32_t>(std::string_view("\x80\x80\x80\x80\x10", 5)));  // 2^32
  EXPECT_FALSE(reads<uint32_t>(std::string_view("\x81\x00", 2)));              // 1, overlong
  EXPECT_FALSE(reads<int32_t>(std::string_view("\x80\x80\x80\x80\x20", 5)));
  EXPECT_FALSE(reads<std::vector<std::string>>(std::string_view("\xff\xff\xff\xff\x0f", 5)));
  EXPECT_FALSE(reads<std::vector<model::Segment>>(std::string_view("\x01", 1)));
}

}  // namespace
}  // namespace overlord::protocol
