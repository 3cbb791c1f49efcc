// JobHandle: a job opened over local files, with the storage its inspection needs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/columnar/block_reader.h"
#include "overlord/node/engine/embedded_engine.h"
#include "overlord/node/engine/open_files.h"
#include "overlord/node/engine/plan_cursor.h"
#include "overlord/protocol/job_codec.h"
#include "overlord/runtime/birth_process.h"

namespace overlord::python {

// What is known of a source when a run starts, and is in no config; 0: as it is declared.
struct ToldSource {
  uint32_t shadows = 0;  // at least
  uint32_t loaders = 0, workers = 0;
  model::SourceCost measured;

  OVERLORD_FIELDS(shadows, loaders, workers, measured)
};
using ToldSources = std::map<std::string, ToldSource>;

void tell_sources(const ToldSources& told, model::JobSpec* spec);

struct OpenRequest {
  std::vector<Rank> ranks;
  model::RuntimeOptions options;
  std::optional<std::string> state;
  std::vector<std::string> worker_command;
  protocol::AllowedChanges allowed;
  std::string journal_path;
  std::shared_ptr<transport::HostPinning> pinning;
  std::shared_ptr<node::TransformDesk> transforms;
  ToldSources told = {};
};

struct RowPlace {
  std::string shard;
  uint64_t row_in_shard = 0;
  uint64_t row = 0;
  uint32_t block = 0;
};

struct RowContent {
  RowPlace place;
  std::string bad;  // why the row cannot be used; empty when it can
  bool is_text = false;
  std::string text;
  std::vector<int64_t> tokens;
  std::vector<int64_t> mask;  // per token: 0 carries no loss; empty: the row has no mask
};

class JobHandle {
 public:
  static Result<JobHandle> make(model::JobSpec spec, model::DeliverySpec delivery, model::Mesh mesh,
                                std::vector<std::string> index_paths);

  JobHandle(JobHandle&&) = default;
  ~JobHandle();

  const host::OpenJob& job() const { return *job_; }
  Result<std::shared_ptr<node::Engine>> open(OpenRequest request);
  // `call`: the strategy's functions. `place` false: steps in arrival order, whatever it says.
  Result<std::unique_ptr<node::PlanCursor>> planner(const std::optional<std::string>& state,
                                                    std::vector<std::string> worker_command,
                                                    node::CallFunction call = {},
                                                    bool place = true);
  // Sources whose data are not those of an encoded state, with advice (node/engine/data_match.h).
  Result<std::map<std::string, std::string>> changed_data(std::string_view saved) const;
  // All that a node process needs to run this job for these ranks.
  protocol::JobFile job_file(std::vector<Rank> ranks, const model::RuntimeOptions& options,
                             std::vector<std::string> worker_command,
                             std::string journal_path) const;
  Result<RowPlace> locate(uint32_t source, uint32_t pass, uint64_t position) const;
  Result<RowContent> read_row(uint32_t source, uint64_t row,
                              const std::vector<std::string>& worker_command);

 private:
  // The one that was read last: whoever looks at rows looks at several of a block.
  struct KeptBlock {
    uint32_t source = 0;
    uint32_t block = 0;
    columnar::RowBlock rows;
    bool encoded = false;  // where they are texts
  };

  JobHandle() = default;
  RowPlace place_of(uint32_t source, uint32_t block, uint32_t row) const;
  Result<protocol::ResumeState> state_of(const std::optional<std::string>& saved,
                                         protocol::AllowedChanges allowed) const;

  runtime::BirthProcess process_;  // its threads live there alone
  std::shared_ptr<const host::OpenJob> job_;
  std::vector<std::string> index_paths_;
  std::shared_ptr<runtime::Storage> storage_;
  // Kept for planning and inspection of text; made when first needed.
  std::shared_ptr<runtime::ThreadExecutor> executor_;
  std::shared_ptr<node::Encoders> encoders_;
  std::optional<KeptBlock> kept_;
};

}  // namespace overlord::python
