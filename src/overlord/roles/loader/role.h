// The source loader's only door: one slot of one source, single-threaded on its own loop; reading,
// decoding and tokenising happen elsewhere and come back to the loop.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "overlord/columnar/block_reader.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/manifest.h"
#include "overlord/protocol/messages.h"
#include "overlord/roles/loader/logic.h"
#include "overlord/roles/loader/open_media.h"
#include "overlord/roles/loader/probe.h"
#include "overlord/runtime/media_function.h"
#include "overlord/runtime/seams.h"

namespace overlord::loader {

// Decoded bytes kept by all loaders of a host; shared, only counted here.
struct PayloadBudget {
  explicit PayloadBudget(uint64_t limit) : limit_bytes(limit) {}
  const uint64_t limit_bytes;
  std::atomic<uint64_t> used_bytes{0};
};

// A source as loaders see it: shared by its slots, immutable.
struct OpenSource {
  model::Source spec;
  model::SourceManifest manifest;
  std::unique_ptr<columnar::BlockReader> reader;
  std::vector<std::pair<uint64_t, std::string>> bad_rows;  // from the index, by row
  uint64_t seed = 0;
  std::shared_ptr<const OpenMedia> media;  // null: its documents carry none
};

struct QuarantineNote {
  SampleId id;
  uint64_t row = 0;  // of the source
  std::string reason;
  bool late = false;
};

struct LoaderSeams {
  runtime::Transport<protocol::Envelope>* transport = nullptr;
  runtime::Storage* storage = nullptr;
  runtime::Executor* executor = nullptr;
  runtime::TextEncoder* encoder = nullptr;  // null for sources of ready tokens
  runtime::Clock* clock = nullptr;
  std::shared_ptr<runtime::BufferPool> pool;  // for what is decoded
  std::function<void(runtime::Task)> on_loop;
  std::function<void(QuarantineNote)> quarantined;  // called on the loop
  std::function<void()> reclaim;  // the budget is full: let idle loaders of the host shed
  std::shared_ptr<runtime::BufferPool> scratch;  // see columnar::BlockRequest; may be null
  // Users' functions, parallel to OpenMedia::fields(); empty where none has one.
  std::vector<runtime::MediaFunction*> media_functions = {};
  runtime::Executor* spare_executor = nullptr;  // for what a shadow decodes; null: `executor`
};

struct LoaderStart {
  LoaderJob job;
  std::shared_ptr<const OpenSource> source;
  std::shared_ptr<PayloadBudget> budget;
  uint64_t first_window = 0;  // of the run; grants tell a restarted one where to go on
  protocol::PeerGenerations peers;
  // Less than half of the buckets are served here: read single documents instead of whole blocks.
  bool sparse_reads = false;
  std::vector<uint32_t> media_fields;   // the job's numbers of OpenMedia::fields()
  std::optional<size_t> encoded_field;  // among them: goes to the ranks that encode it
  bool pack_media = false;              // blobs travel as they are stored
  bool standby = false;                 // a shadow: active in another process
};

class Loader {
 public:
  Loader(LoaderStart start, LoaderSeams seams);
  ~Loader();

  void receive(const protocol::Envelope& envelope);  // on the loop
  // Active from now on in this generation; on the loop.
  void promote(uint32_t generation);
  void stop();  // cancel reads; on the loop
  void shed();  // drop blocks nobody has used since the last time; on the loop
  const LoaderProbe& probe() const;

 private:
  class Service;
  std::shared_ptr<Service> service_;
};

}  // namespace overlord::loader
