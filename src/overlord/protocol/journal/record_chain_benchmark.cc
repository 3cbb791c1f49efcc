// Bytes and time of a plan's record where a journal is a chain of differences: 306 sources, of
// which 100 are drawn from, or all, with debts by chance. A third row has 100 drawn from while
// every debt moves as a mixture by tokens moves it: each step asks a little of every source by its
// weight. `whole_bytes` is the state itself.
#include <benchmark/benchmark.h>

#include <vector>

#include "overlord/base/check.h"
#include "overlord/base/rng.h"
#include "overlord/protocol/journal/record_chain.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::protocol {
namespace {

constexpr uint32_t kSources = 306;
constexpr uint32_t kCarried = 200;
constexpr uint32_t kSteps = 64;
constexpr uint64_t kDebtRange = uint64_t{1} << 31;  // about 2,000 tokens, 2^20 to each

class MadeUpRun {
 public:
  MadeUpRun(uint32_t drawn, bool all_debts) : drawn_(drawn), all_debts_(all_debts) {
    state_.next_step = 123'456;
    for (uint32_t s = 0; s < kSources; ++s) {
      const uint64_t samples = below(uint64_t{1} << 30);
      state_.cursors.push_back({static_cast<uint32_t>(below(3)), samples % 50'000'000, debt(),
                                samples, samples * 700 + below(700), below(300), below(30), false});
    }
    carry();
  }

  const model::StreamState& state() const { return state_; }
  const model::StreamState& step() {
    ++state_.next_step;
    for (uint32_t i = 0; i < drawn_; ++i) {
      const uint64_t source = (first_ + i * (kSources / drawn_)) % kSources;
      const uint64_t documents = 1 + below(40);
      model::SourceCursor& cursor = state_.cursors[source];
      cursor.position += documents;
      cursor.samples += documents;
      const uint64_t tokens = documents * 500 + below(10'000);
      cursor.tokens += tokens;
      cursor.debt =
          all_debts_ ? cursor.debt - static_cast<int64_t>(tokens << model::kDebtBits) : debt();
    }
    const uint64_t time = (uint64_t{1000} << model::kDebtBits) + below(uint64_t{1} << 27);
    for (uint32_t s = 0; s < kSources && all_debts_; ++s) {
      state_.cursors[s].debt += static_cast<int64_t>(time * (s % 17 + 1));
    }
    ++first_;
    carry();
    return state_;
  }

 private:
  uint64_t below(uint64_t limit) { return uniform_below(1, draws_++, 0, limit); }
  int64_t debt() { return static_cast<int64_t>(below(kDebtRange)) - int64_t{kDebtRange / 2}; }
  // A packer's leftovers: some are placed, as many come behind.
  void carry() {
    if (!state_.carried.empty()) {
      state_.carried.erase(state_.carried.begin(), state_.carried.begin() + kCarried / 4);
    }
    while (state_.carried.size() < kCarried) {
      model::Carried carried;
      carried.id.source = static_cast<uint32_t>(below(kSources));
      const model::SourceCursor& cursor = state_.cursors[carried.id.source];
      carried.id.pass = cursor.pass;
      carried.id.position = cursor.position - below(20);
      carried.tokens = carried.end = static_cast<uint32_t>(50 + below(4000));
      carried.drawn_step = state_.next_step - 1;
      state_.carried.push_back(carried);
    }
  }

  const uint32_t drawn_;
  const bool all_debts_;
  uint64_t draws_ = 0;
  uint32_t first_ = 0;
  model::StreamState state_;
};

struct Journal {
  JournalStart start;
  std::vector<PlanRecord> plans;
};

Journal made_up_journal(benchmark::State& state) {
  MadeUpRun run(static_cast<uint32_t>(state.range(0)), state.range(1) > 0);
  Journal journal;
  journal.start.state = encode_stream_state(run.state());
  for (uint32_t i = 0; i < kSteps; ++i) {
    const model::StreamState& after = run.step();
    journal.plans.push_back(
        {{}, after.next_step - 1, 0, {1, i}, {2, i}, encode_stream_state(after)});
  }
  return journal;
}

void report(benchmark::State& state, const Journal& journal, size_t written_bytes) {
  state.counters["bytes_per_plan"] = static_cast<double>(written_bytes) / kSteps;
  state.counters["whole_bytes"] = static_cast<double>(journal.plans.back().state_after.size());
  state.counters["seconds_per_plan"] = benchmark::Counter(
      kSteps, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void write_plans(benchmark::State& state) {
  const Journal journal = made_up_journal(state);
  JournalWriter writer;
  size_t written_bytes = 0;
  for (auto _ : state) {
    writer.write(journal.start);
    written_bytes = 0;
    for (const PlanRecord& plan : journal.plans) written_bytes += writer.write(plan).size();
  }
  report(state, journal, written_bytes);
}
BENCHMARK(write_plans)
    ->ArgNames({"drawn", "all_debts"})
    ->Args({100, 0})
    ->Args({kSources, 0})
    ->Args({100, 1})
    ->Unit(benchmark::kMillisecond);

void read_plans(benchmark::State& state) {
  const Journal journal = made_up_journal(state);
  JournalWriter writer;
  std::vector<std::string> records = {writer.write(journal.start)};
  size_t written_bytes = 0;
  for (const PlanRecord& plan : journal.plans) {
    records.push_back(writer.write(plan));
    written_bytes += records.back().size();
  }
  JournalReader reader;
  for (auto _ : state) {
    for (const std::string& bytes : records) {
      const auto record = reader.read(bytes);
      OVERLORD_CHECK(record.ok(), "what was written is read");
      benchmark::DoNotOptimize(record);
    }
  }
  report(state, journal, written_bytes);
}
BENCHMARK(read_plans)
    ->ArgNames({"drawn", "all_debts"})
    ->Args({100, 0})
    ->Args({kSources, 0})
    ->Args({100, 1})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace overlord::protocol
