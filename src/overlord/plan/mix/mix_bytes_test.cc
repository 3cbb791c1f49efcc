// Unit bytes: text is weighed by its bytes, ready tokens by their width, and a source whose
// metadata does not tell is refused.
#include <gtest/gtest.h>

#include "overlord/plan/mix/mix_schedule.h"
#include "overlord/plan/place/made_up_job_test.h"

namespace overlord::plan {
namespace {

// Metadata of all windows, with the bytes that `bytes_of` gives a row of source 0.
template <typename BytesOf>
std::vector<MetaBuffer> with_bytes(const MadeUpJob& job, uint32_t passes, BytesOf bytes_of) {
  std::vector<MetaBuffer> meta(job.sources.size());
  for (SourceIndex s = 0; s < job.sources.size(); ++s) {
    for (uint32_t pass = 0; pass < passes; ++pass) {
      for (uint64_t first = 0; first < job.rows[s]; first += job.window_rows) {
        auto window = std::make_shared<model::MetaWindow>(*job.window(s, pass, first));
        model::MetaColumn other{"quality", std::vector<int64_t>(window->tokens.size(), 1)};
        model::MetaColumn column{model::kBytesColumn, {}};
        for (uint64_t row = first; row < first + window->tokens.size(); ++row) {
          column.values.push_back(bytes_of(row));
        }
        if (s == 0) window->columns = {other, column};
        meta[s].post(std::move(window));
      }
    }
  }
  return meta;
}

// Source 0 is tokenised text, source 1 ready tokens.
MadeUpJob mixed_job() {
  MadeUpJob job(64, 8);
  model::Source& text = job.add(std::vector<uint32_t>(400, 16), model::EndPolicy::kRepeat);
  text.tokenizer.kind = model::TokenizerKind::kHuggingface;
  text.count_bytes = true;
  job.add(std::vector<uint32_t>(400, 16), model::EndPolicy::kRepeat);
  job.spec.packing.method = model::Packing::kConcat;
  job.spec.mixture.unit = model::MixUnit::kBytes;
  return job;
}

Result<model::StreamState> after_steps(const MadeUpJob& job, std::span<const MetaBuffer> meta) {
  Selector selector;
  model::StreamState state = initial_state(job.spec);
  for (int i = 0; i < 30; ++i) {
    OVERLORD_TRY(Selection selection, selector.step(job.spec, job.rows, state, meta));
    state = selection.after;
  }
  return state;
}

TEST(MixBytes, TextCountsItsBytesAndReadyTokensFourEach) {
  const MadeUpJob job = mixed_job();
  ASSERT_TRUE(check_mixture(job.spec).ok());
  // 96 bytes a text on average, 64 bytes a document of ready tokens: 2 texts for 3 of those.
  const auto meta = with_bytes(job, 40, [](uint64_t row) { return row % 2 == 0 ? 32 : 160; });
  const auto state = after_steps(job, meta);
  ASSERT_TRUE(state.ok()) << state.status().message();
  const auto& cursors = state->cursors;
  EXPECT_NEAR(static_cast<double>(cursors[0].samples * 96),
              static_cast<double>(cursors[1].samples * 64), 2 * 160);
}

TEST(MixBytes, OfATruncatedDocumentItsShareIsCharged) {
  MadeUpJob job = mixed_job();
  job.sources[0].lengths.assign(400, 128);  // half of it is cut off
  job.spec.sources[0].over_length = model::OverLength::kTruncate;
  const auto meta = with_bytes(job, 40, [](uint64_t) { return 512; });
  const auto state = after_steps(job, meta);
  ASSERT_TRUE(state.ok()) << state.status().message();
  EXPECT_NEAR(static_cast<double>(state->cursors[0].samples * 256),
              static_cast<double>(state->cursors[1].samples * 64), 512);
}

TEST(MixBytes, MetadataWithoutThemIsRefused) {
  MadeUpJob job = mixed_job();
  EXPECT_NE(
      after_steps(job, job.post(2)).status().message().find("metadata of source source0 has none"),
      std::string::npos);
  job.spec.sources[0].count_bytes = false;
  EXPECT_NE(check_mixture(job.spec).message().find("source source0 does not count them"),
            std::string::npos);
}

}  // namespace
}  // namespace overlord::plan
