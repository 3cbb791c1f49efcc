#include "overlord/sim/scenario.h"

#include "overlord/base/check.h"

namespace overlord::sim {
namespace {

constexpr uint32_t kVocabulary = 1000;

testing::CorpusSpec corpus(const std::string& source, uint32_t shards, uint32_t documents,
                           uint32_t most_tokens) {
  testing::CorpusSpec spec;
  spec.source = source;
  spec.shards = shards;
  spec.documents = documents;
  spec.most_tokens = most_tokens;
  spec.vocabulary = kVocabulary;
  return spec;
}

model::Source source_of(const testing::CorpusSpec& spec, model::Format format) {
  model::Source source;
  source.name = spec.source;
  source.format = format;
  source.vocabulary = kVocabulary;
  source.eod = 999;
  source.window_rows = 24;
  return source;
}

}  // namespace

Scenario Scenario::small(uint64_t seed) {
  Scenario scenario;
  scenario.objects = std::make_shared<runtime::MemoryStorage>();
  scenario.corpora = {corpus("alpha", 2, 40, 90), corpus("beta", 3, 25, 60),
                      corpus("gamma", 1, 60, 150)};
  const std::vector<testing::Files> files = {testing::megatron_corpus(scenario.corpora[0]),
                                             testing::jsonl_token_corpus(scenario.corpora[1]),
                                             testing::jsonl_text_corpus(scenario.corpora[2])};
  model::JobSpec& spec = scenario.spec;
  spec.name = "small";
  spec.seed = seed;
  spec.context = 128;
  spec.bins = 8;
  spec.align = 1;
  const model::Format formats[] = {model::Format::kMegatron, model::Format::kJsonl,
                                   model::Format::kJsonl};
  for (size_t s = 0; s < files.size(); ++s) {
    model::Source source = source_of(scenario.corpora[s], formats[s]);
    for (const auto& [uri, bytes] : files[s]) scenario.objects->put(uri, bytes);
    source.files = testing::shard_uris(files[s]);
    spec.sources.push_back(std::move(source));
  }
  spec.sources[1].token_column = "tokens";
  spec.sources[2].text_column = "text";
  spec.sources[2].tokenizer.kind = model::TokenizerKind::kBytes;
  spec.sources[2].tokenizer.digest = "bytes";
  spec.mixture.stages = {{0, {model::kWeightOne, model::kWeightOne / 2, model::kWeightOne / 4}}};
  scenario.options.hash_batches = true;
  return scenario;
}

std::shared_ptr<const host::OpenJob> Scenario::open() const {
  Result<model::Mesh> mesh = model::Mesh::make(axes);
  OVERLORD_CHECK(mesh.ok(), "a scenario has a sound mesh");
  auto job = open_in_memory(spec, delivery, *mesh, *objects, true);
  if (!job.ok()) check_failed("scenario", __FILE__, __LINE__, job.status().message().c_str());
  return *job;
}

std::vector<Rank> Scenario::all_ranks() const {
  uint32_t world = 1;
  for (const model::Axis& axis : axes) world *= axis.size;
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < world; ++rank) ranks.push_back(rank);
  return ranks;
}

std::unique_ptr<SimCluster> Scenario::start(uint64_t seed) const {
  const auto job = open();
  return std::make_unique<SimCluster>(job, *objects, all_ranks(), options, host::start_state(*job),
                                      seed);
}

std::unique_ptr<SimCluster> Scenario::resume(const protocol::ResumeState& state, uint64_t seed,
                                             std::vector<Rank> ranks) const {
  const auto job = open();
  auto adapted = host::resume_from(*job, state, {});
  if (!adapted.ok()) check_failed("resume", __FILE__, __LINE__, adapted.status().message().c_str());
  if (ranks.empty()) ranks = all_ranks();
  return std::make_unique<SimCluster>(job, *objects, std::move(ranks), options, *adapted, seed);
}

std::vector<int64_t> Scenario::document(SourceIndex source, uint64_t row) const {
  std::vector<int64_t> tokens;
  const model::Source& spec_source = spec.sources[source];
  if (spec_source.bos) tokens.push_back(*spec_source.bos);
  if (!spec_source.text_column.empty()) {
    for (const char c : testing::text_of(corpora[source], row)) {
      tokens.push_back(static_cast<unsigned char>(c));
    }
  } else {
    for (const uint32_t token : testing::tokens_of(corpora[source], row)) tokens.push_back(token);
  }
  if (spec_source.eod) tokens.push_back(*spec_source.eod);
  return tokens;
}

}  // namespace overlord::sim
