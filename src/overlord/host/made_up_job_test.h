// Test support: open jobs without files. A made-up source has rows of known lengths and nothing to
// read; one of pictures is indexed in memory.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "overlord/columnar/index/source_index.h"
#include "overlord/host/open_job.h"
#include "overlord/runtime/in_memory/memory_storage.h"
#include "overlord/testing/picture_corpus.h"

namespace overlord::host {

using OpenSourcePtr = std::shared_ptr<const loader::OpenSource>;

struct MadeUpJob {
  model::JobSpec spec;
  model::DeliverySpec delivery;
  std::vector<model::Axis> axes = {{"dp", 1}};
  std::vector<OpenSourcePtr> sources;

  // Sources are added by name; everything else is as a config would leave it.
  explicit MadeUpJob(uint32_t context = 128, uint32_t bins = 8) {
    spec.context = context;
    spec.bins = bins;
    spec.mixture.stages = {{0, {}}};
  }

  model::Mesh mesh() const { return *model::Mesh::make(axes); }
  Result<std::shared_ptr<const OpenJob>> open() const {
    return open_job(spec, delivery, mesh(), sources);
  }
  void add(OpenSourcePtr source) {
    spec.sources.push_back(source->spec);
    spec.mixture.stages[0].weights.push_back(model::kWeightOne);
    sources.push_back(std::move(source));
  }
};

inline model::Source made_up_source(const std::string& name) {
  model::Source source;
  source.name = name;
  source.format = model::Format::kJsonl;
  source.token_column = "tokens";
  source.vocabulary = 1000;
  return source;
}

// Every row has `tokens` tokens; all of them are one block.
inline OpenSourcePtr made_up_rows(const model::Source& spec, uint32_t rows, uint32_t tokens = 10) {
  struct Held {
    std::vector<model::BlockEntry> blocks;
    std::vector<uint32_t> lengths;
  };
  auto held = std::make_shared<Held>();
  held->blocks = {{0, rows, 0, 0, rows}};
  held->lengths.assign(rows, tokens);
  auto open = std::make_shared<loader::OpenSource>();
  open->spec = spec;
  open->manifest.name = spec.name;
  open->manifest.digest = digest_of(spec.name + std::to_string(rows));
  open->manifest.rows = rows;
  open->manifest.meta_origin = model::MetaOrigin::kIndex;
  open->manifest.blocks = held->blocks;
  open->manifest.lengths = held->lengths;
  open->manifest.holder = held;
  return open;
}

inline model::MediaField picture_field(const std::string& name, const std::string& transform,
                                       uint32_t pad = 7) {
  model::MediaUse use;
  use.transform = transform;
  use.pad = pad;
  return {name, {"png"}, use};
}

// A source with captions and pictures, to be given media fields.
inline model::Source picture_source(const std::string& name) {
  model::Source source;
  source.name = name;
  source.format = model::Format::kWebdataset;
  source.text_column = "txt";
  source.tokenizer = {model::TokenizerKind::kBytes, "", "bytes", false};
  source.vocabulary = 1000;
  source.over_length = model::OverLength::kDrop;
  return source;
}

inline OpenSourcePtr pictures(model::Source spec) {
  runtime::MemoryStorage storage;
  for (const auto& [uri, bytes] :
       testing::picture_corpus({spec.name, "mem:/" + spec.name, 1, 8, 8, 3})) {
    storage.put(uri, bytes);
    spec.files.push_back(uri);
  }
  columnar::IndexOptions options;
  options.threads = 1;
  options.probe = loader::media_probe(spec);
  auto bytes =
      columnar::build_index_bytes(storage, nullptr, spec, options, nullptr, runtime::CancelToken());
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  const auto index = *columnar::SourceIndex::from_bytes(*bytes, spec);
  auto open = std::make_shared<loader::OpenSource>();
  open->spec = spec;
  open->manifest = index->manifest();
  auto media = loader::OpenMedia::open(spec, *index);
  EXPECT_TRUE(media.ok()) << media.status().message();
  open->media = *media;
  return open;
}

// A refusal that names what is wrong.
inline void expect_refused(const Status& status, const std::string& says,
                           Code code = Code::kInvalidArgument) {
  EXPECT_EQ(status.code(), code) << "wanted: " << says;
  EXPECT_NE(status.message().find(says), std::string::npos)
      << "wanted: " << says << "\ngot: " << status.message();
}

}  // namespace overlord::host
