#include "overlord/protocol/wire.h"

#include <gtest/gtest.h>

#include "overlord/protocol/made_up_messages_test.h"

namespace overlord::protocol {
namespace {

constexpr size_t kKinds = std::variant_size_v<Message>;

std::string bytes_at(const void* data, size_t size) {
  return data == nullptr ? "" : std::string(static_cast<const char*>(data), size);
}

TEST(Wire, EveryKindIsMadeUp) {
  MadeUpWorld world(1, true);
  for (size_t kind = 0; kind < kKinds; ++kind) EXPECT_EQ(world.message(1, kind).index(), kind);
}

TEST(Wire, EnvelopesSurviveARoundTrip) {
  for (const bool shared_memory : {false, true}) {
    for (size_t kind = 0; kind < kKinds; ++kind) {
      for (uint64_t seed = 0; seed < 100; ++seed) {
        MadeUpWorld world(seed, shared_memory);
        const Envelope envelope = world.envelope(seed, kind);
        const EncodeOptions options{world.context.regions, std::nullopt};
        const std::string bytes = encode_envelope(envelope, options);
        const auto decoded = decode_envelope(bytes, world.context);
        ASSERT_TRUE(decoded.ok()) << decoded.status().message() << ", kind " << kind << ", seed "
                                  << seed;
        EXPECT_EQ(decoded->versions, envelope.versions);
        EXPECT_EQ(decoded->from, envelope.from);
        EXPECT_EQ(decoded->to, envelope.to);
        ASSERT_EQ(decoded->message.index(), kind);
        ASSERT_EQ(encode_envelope(*decoded, options), bytes)
            << "kind " << kind << ", seed " << seed;
      }
    }
  }
}

void expect_same_field(const model::FieldView& a, const model::FieldView& b, bool seen) {
  if (!seen) return;
  EXPECT_EQ(bytes_at(a.data, a.size_bytes), bytes_at(b.data, b.size_bytes));
}

TEST(Wire, PayloadsArriveWithTheirBytes) {
  for (const bool shared_memory : {false, true}) {
    for (uint64_t seed = 0; seed < 100; ++seed) {
      MadeUpWorld world(seed, shared_memory);
      const PayloadPtr sent = std::get<PayloadPtr>(world.message(seed, 4));
      const auto message = decode_message(
          encode_message(sent, {world.context.regions, std::nullopt}), world.context);
      ASSERT_TRUE(message.ok());
      const PayloadPtr got = std::get<PayloadPtr>(*message);
      EXPECT_EQ(got->step, sent->step);
      EXPECT_EQ(got->bucket, sent->bucket);
      EXPECT_EQ(got->source, sent->source);
      EXPECT_EQ(got->slot, sent->slot);
      EXPECT_EQ(got->ordinals, sent->ordinals);
      ASSERT_EQ(got->media.size(), sent->media.size());
      for (size_t i = 0; i < sent->media.size(); ++i) {
        const model::MediaPiece& a = sent->media[i];
        const model::MediaPiece& b = got->media[i];
        EXPECT_EQ(a.ordinal, b.ordinal);
        EXPECT_EQ(a.field, b.field);
        EXPECT_EQ(a.first, b.first);
        EXPECT_EQ(a.tokens, b.tokens);
        EXPECT_EQ(a.shape, b.shape);
        expect_same_field(a.data, b.data, true);
      }
      ASSERT_EQ(got->spans.size(), sent->spans.size());
      for (size_t i = 0; i < sent->spans.size(); ++i) {
        const model::TokenSpan& a = sent->spans[i];
        const model::TokenSpan& b = got->spans[i];
        const size_t size = a.count * model::element_bytes(a.element);
        EXPECT_EQ(a.count, b.count);
        EXPECT_EQ(a.element, b.element);
        EXPECT_EQ(a.data == nullptr, b.data == nullptr);
        EXPECT_EQ(a.mask == nullptr, b.mask == nullptr);
        EXPECT_EQ(bytes_at(a.data, size), bytes_at(b.data, size));
        EXPECT_EQ(bytes_at(a.mask, a.count), bytes_at(b.mask, b.count));
      }
    }
  }
}

TEST(Wire, StepsArriveWithTheirBytes) {
  for (const bool shared_memory : {false, true}) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      MadeUpWorld world(seed, shared_memory);
      const StepReady sent = std::get<StepReady>(world.message(seed, 6));
      const auto message = decode_message(
          encode_message(sent, {world.context.regions, std::nullopt}), world.context);
      ASSERT_TRUE(message.ok());
      const StepReady& got = std::get<StepReady>(*message);
      ASSERT_EQ(got.microbatches.size(), sent.microbatches.size());
      for (size_t i = 0; i < sent.microbatches.size(); ++i) {
        const model::Microbatch& a = *sent.microbatches[i];
        const model::Microbatch& b = *got.microbatches[i];
        EXPECT_EQ(a.view, b.view);
        EXPECT_EQ(a.digest, b.digest);
        EXPECT_EQ(a.core->boundaries.cu_seqlens, b.core->boundaries.cu_seqlens);
        EXPECT_EQ(a.core->lineage.size(), b.core->lineage.size());
        ASSERT_EQ(a.slab == nullptr, b.slab == nullptr);
        ASSERT_EQ(a.media == nullptr, b.media == nullptr);
        if (a.media) {
          EXPECT_EQ(model::media_digest(*a.media), model::media_digest(*b.media));
        }
        ASSERT_EQ(a.encoded == nullptr, b.encoded == nullptr);
        if (a.encoded) {
          EXPECT_EQ(model::media_digest(*a.encoded), model::media_digest(*b.encoded));
        }
        for (size_t j = 0; j < i; ++j) {  // what was shared is shared
          EXPECT_EQ(a.core == sent.microbatches[j]->core, b.core == got.microbatches[j]->core);
          EXPECT_EQ(a.slab == sent.microbatches[j]->slab, b.slab == got.microbatches[j]->slab);
        }
        if (!a.slab) continue;
        const uint8_t seen = a.view.fields;
        EXPECT_EQ(a.slab->rows, b.slab->rows);
        EXPECT_EQ(a.slab->columns, b.slab->columns);
        expect_same_field(a.slab->tokens, b.slab->tokens, seen & model::kFieldTokens);
        expect_same_field(a.slab->targets, b.slab->targets, seen & model::kFieldTargets);
        expect_same_field(a.slab->loss_weights, b.slab->loss_weights,
                          seen & model::kFieldLossWeights);
        expect_same_field(a.slab->positions, b.slab->positions, seen & model::kFieldPositions);
      }
    }
  }
}

// A step of one microbatch with 1 MiB of tokens.
StepReady large_step(MadeUpWorld* world, char* tokens) {
  RandomFields random(5);
  auto core = std::make_shared<model::MicrobatchCore>(random.make<model::MicrobatchCore>());
  core->token_type = model::TokenType::kInt32;
  core->hdp_bin = 0;
  core->boundaries.cu_seqlens_padded = core->boundaries.cu_seqlens;
  auto slab = std::make_shared<model::Slab>();
  slab->rows = 4;
  slab->columns = 65536;
  slab->tokens = slab->targets = {tokens, 1 << 20};
  auto batch = std::make_shared<model::Microbatch>();
  batch->core = core;
  batch->slab = slab;
  batch->view.fields = model::kFieldTokens;
  const model::PlanPtr plan = random_plan(5, world->shape, world->views);
  return {plan->step, plan, {batch}};
}

TEST(Wire, SharedMemoryIsNotCopied) {
  MadeUpWorld world(1, true);
  char* tokens = world.regions.add(1 << 20);
  const StepReady step = large_step(&world, tokens);
  const std::string plan = encode_plan(plan_for_clients(*step.plan));
  const std::string bytes = encode_message(step, {&world.regions, std::nullopt, &plan});
  EXPECT_LT(bytes.size(), 2048u);
  const auto decoded = decode_message(bytes, world.context);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(std::get<StepReady>(*decoded).microbatches[0]->slab->tokens.data, tokens);
}

TEST(Wire, OnlyFieldsThatTheRankSeesTravel) {
  MadeUpWorld world(1, false);
  std::string tokens(1 << 20, 'x');
  const StepReady step = large_step(&world, tokens.data());
  const std::string bytes = encode_message(step, {});
  EXPECT_LT(bytes.size(), (1u << 20) + 16384);
  const auto decoded = decode_message(bytes, world.context);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  const model::Slab& slab = *std::get<StepReady>(*decoded).microbatches[0]->slab;
  EXPECT_EQ(slab.targets.data, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(slab.tokens.data) % 64, 0u);
}

TEST(Wire, ADocumentThatIsMentionedTwiceTravelsOnce) {
  MadeUpWorld world(1, false);
  const std::string document(4000, 'x');
  auto payload = std::make_shared<Payload>();
  payload->ordinals = {1, 2, 3};
  payload->spans.assign(3, {document.data(), nullptr, 1000, model::Element::kI32});
  const std::string bytes = encode_message(PayloadPtr(payload), {});
  EXPECT_LT(bytes.size(), 4100u);
  const auto decoded = decode_message(bytes, world.context);
  ASSERT_TRUE(decoded.ok());
  const PayloadPtr got = std::get<PayloadPtr>(*decoded);
  EXPECT_EQ(got->spans[2].data, got->spans[0].data);
  EXPECT_EQ(got->holders.size(), 1u);
}

TEST(Wire, PlansCanBeCutDownOnTheWay) {
  MadeUpWorld world(2, false);
  const Message message = world.message(3, 2);
  const std::string whole = encode_message(message, {});
  const std::string part = encode_message(message, {nullptr, 2});
  EXPECT_LT(part.size(), whole.size());
  const auto decoded = decode_message(part, world.context);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  const PlanPublished& published = std::get<PlanPublished>(*decoded);
  ASSERT_NE(published.index, nullptr);
  const auto& index = std::get<PlanPublished>(message).index;
  EXPECT_EQ(published.index->buckets[2].row_ends, index->buckets[2].row_ends);
  EXPECT_EQ(published.index->buckets[2].capacities, index->buckets[2].capacities);
  EXPECT_EQ(published.index->buckets[2].readers, index->buckets[2].readers);
  EXPECT_FALSE(index->buckets[1].readers.empty());
  EXPECT_TRUE(published.index->buckets[1].readers.empty());
  EXPECT_TRUE(published.index->buckets[1].segments.empty());
}

TEST(Wire, AHeadIsReadWithoutTheRest) {
  MadeUpWorld world(2, false);
  const Envelope envelope = world.envelope(3, 2);
  const std::string bytes = encode_envelope(envelope, {});
  std::string_view rest = bytes;
  const auto head = decode_head(&rest);
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->versions, envelope.versions);
  EXPECT_EQ(head->to, envelope.to);
  EXPECT_EQ(rest, encode_message(envelope.message, {}));
  EXPECT_EQ(encode_envelope(*head, rest), bytes);
}

TEST(Wire, SmallMessagesAreSmall) {
  MadeUpWorld world(2, false);
  Envelope envelope{{0xffffffffffffffff, 1, 1, 1, 1, 1, 1},
                    client_address(4095),
                    constructor_address(511),
                    Get{1'000'000, 999'999}};
  EXPECT_LE(encode_envelope(envelope, {}).size(), 40u);
}

TEST(Wire, AStatusKeepsItsCodeAndText) {
  MadeUpWorld world(2, false);
  const auto decoded =
      decode_message(encode_message(StreamFailed{7, bad_data("row 3")}, {}), world.context);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<StreamFailed>(*decoded).status.code(), Code::kBadData);
  EXPECT_EQ(std::get<StreamFailed>(*decoded).status.message(), "row 3");
}

TEST(Wire, ANewerFormatIsRefusedByBothVersions) {
  MadeUpWorld world(2, false);
  std::string bytes = encode_envelope(world.envelope(1, 0), {});
  bytes[0] = 9;
  const auto decoded = decode_envelope(bytes, world.context);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.status().code(), Code::kVersionMismatch);
  EXPECT_NE(decoded.status().message().find("format 9"), std::string::npos);
}

TEST(Wire, MemoryOutsideItsRegionIsRefused) {
  MadeUpWorld world(3, true);
  MadeUpWorld stranger(3, true);
  const char* tokens = world.regions.add(4000);
  auto payload = std::make_shared<Payload>();
  payload->ordinals = {0};
  payload->spans = {{tokens, nullptr, 1000, model::Element::kI32}};
  const std::string bytes = encode_message(PayloadPtr(payload), {&world.regions, std::nullopt});
  EXPECT_TRUE(decode_message(bytes, world.context).ok());
  const auto refused = decode_message(bytes, stranger.context);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kBadData);
  stranger.context.regions = nullptr;
  EXPECT_FALSE(decode_message(bytes, stranger.context).ok());
}

bool refused(const MadeUpWorld& world, const Message& message) {
  const auto decoded = decode_message(encode_message(message, {}), world.context);
  return !decoded.ok() && decoded.status().code() == Code::kBadData;
}

TEST(Wire, AWindowThatDoesNotFitTogetherIsRefused) {
  MadeUpWorld world(3, false);
  const auto with = [&](auto damage) {
    RandomFields random(3);
    model::MetaWindow window = *random_window(random, world.shape.sources).window;
    window.span_ends.assign(window.tokens.size(), 1);
    window.spans = {{1, 2}};
    damage(&window);
    return refused(world, MetaPosted{1, std::make_shared<const model::MetaWindow>(window)});
  };
  EXPECT_FALSE(with([](model::MetaWindow*) {}));
  EXPECT_TRUE(with([](auto* window) { window->first.source = 5; }));
  EXPECT_TRUE(with([](auto* window) { window->group_ends.assign(window->tokens.size() + 1, 99); }));
  EXPECT_TRUE(with([](auto* window) { window->group_ends.assign(window->tokens.size(), 0); }));
  EXPECT_TRUE(with([](auto* window) { window->group_ends.assign(window->tokens.size(), 99); }));
  EXPECT_TRUE(with([](auto* window) { window->span_ends.push_back(1); }));
  EXPECT_TRUE(with([](auto* window) { window->span_ends.front() = 2; }));
  EXPECT_TRUE(with([](auto* window) { window->spans.emplace_back(); }));
  EXPECT_TRUE(with([](auto* window) { window->columns.front().values.emplace_back(); }));
  EXPECT_TRUE(with([](auto* window) { window->bad.front().index = 1000; }));
  EXPECT_TRUE(refused(world, MetaPosted{}));
}

TEST(Wire, AStepThatARankCouldNotReadIsRefused) {
  MadeUpWorld world(3, false);
  std::string tokens(1 << 20, 'x');
  const auto with = [&](auto damage) {
    StepReady step = large_step(&world, tokens.data());
    auto core = std::make_shared<model::MicrobatchCore>(*step.microbatches[0]->core);
    auto slab = std::make_shared<model::Slab>(*step.microbatches[0]->slab);
    auto batch = std::make_shared<model::Microbatch>(*step.microbatches[0]);
    damage(core.get(), slab.get(), batch.get());
    if (batch->slab) batch->slab = slab;
    batch->core = core;
    step.microbatches[0] = batch;
    return refused(world, step);
  };
  EXPECT_FALSE(with([](auto*, auto*, auto*) {}));
  EXPECT_TRUE(with([](auto*, model::Slab* slab, auto*) { slab->columns += 1; }));
  EXPECT_TRUE(with([](auto*, model::Slab* slab, auto*) { slab->tokens = {}; }));
  EXPECT_TRUE(with([](auto* core, auto*, auto*) { core->token_type = model::TokenType::kInt64; }));
  EXPECT_TRUE(with([](auto* core, auto*, auto*) { core->boundaries.cu_seqlens.push_back(1); }));
  EXPECT_TRUE(with([](auto*, auto*, model::Microbatch* batch) { batch->slab = nullptr; }));
  EXPECT_TRUE(with([](auto*, auto*, model::Microbatch* batch) { batch->view.slice = 1; }));
  EXPECT_TRUE(with([](auto*, auto*, model::Microbatch* batch) { batch->view.fields = 33; }));
  StepReady other = large_step(&world, tokens.data());
  other.step += 1;  // not its plan's
  EXPECT_TRUE(refused(world, other));
}

TEST(Wire, MediaThatDoNotFitTogetherAreRefused) {
  MadeUpWorld world(3, false);
  std::string tokens(1 << 20, 'x');
  const auto with = [&](auto damage) {
    StepReady step = large_step(&world, tokens.data());
    auto core = std::make_shared<model::MicrobatchCore>(*step.microbatches[0]->core);
    core->lineage.resize(2);
    model::MediaSlab slab;
    slab.layout = {"image", model::Element::kF32, {3}};
    slab.rows = 4;
    slab.data = {tokens.data(), 48};
    slab.items = {{0, 1, 2, 0, {2, 1, 1, 2}}, {1, 9, 2, 2, {2, 1, 1, 2}}};
    auto batch = std::make_shared<model::Microbatch>(*step.microbatches[0]);
    damage(&slab, batch.get());
    batch->core = core;
    batch->media =
        std::make_shared<const std::vector<model::MediaSlab>>(std::vector<model::MediaSlab>{slab});
    step.microbatches[0] = batch;
    return refused(world, step);
  };
  EXPECT_FALSE(with([](auto*, auto*) {}));
  EXPECT_TRUE(with([](model::MediaSlab* slab, auto*) { slab->rows = 5; }));
  EXPECT_FALSE(with([](model::MediaSlab* slab, auto*) { slab->data = {}; }));
  EXPECT_TRUE(with([](model::MediaSlab* slab, auto*) { slab->items[1].document = 2; }));
  EXPECT_TRUE(with([](model::MediaSlab* slab, auto*) { slab->items[1].row_begin = 3; }));
  EXPECT_TRUE(with([](model::MediaSlab* slab, auto*) { slab->layout.row_shape = {0}; }));
  EXPECT_TRUE(
      with([](model::MediaSlab* slab, auto*) { slab->layout.row_shape = {1u << 31, 8, 6}; }));
  EXPECT_TRUE(
      with([](model::MediaSlab* slab, auto*) { slab->layout.element = model::Element::kF64; }));
  EXPECT_TRUE(with([](auto*, model::Microbatch* batch) {
    batch->view.fields = model::kFieldTargets;
    batch->view.slices = 1;
  }));
}

TEST(Wire, APayloadOfAnUnknownSourceIsRefused) {
  MadeUpWorld world(3, false);
  auto payload = std::make_shared<Payload>();
  EXPECT_FALSE(refused(world, PayloadPtr(payload)));
  payload->source = world.shape.sources;
  EXPECT_TRUE(refused(world, PayloadPtr(payload)));
}

// The bytes are a format: who changes them raises kWireFormat and this.
TEST(Wire, BytesAreGolden) {
  Digest all;
  for (const bool shared_memory : {false, true}) {
    for (size_t kind = 0; kind < kKinds; ++kind) {
      MadeUpWorld world(11, shared_memory);
      const EncodeOptions options{world.context.regions, std::nullopt};
      all = chain(all, digest_of(encode_envelope(world.envelope(11, kind), options)));
    }
  }
  EXPECT_EQ(all.hex(), "88f96fbe3d034506347057b81fa2c32b");
}

}  // namespace
}  // namespace overlord::protocol
