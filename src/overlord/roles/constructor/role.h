// The data constructor's only door: one per data-parallel group, single-threaded on its own loop;
// bytes are laid out on the CPU pool, one task per microbatch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "overlord/batch/assemble.h"
#include "overlord/model/mesh.h"
#include "overlord/protocol/messages.h"
#include "overlord/roles/constructor/logic.h"
#include "overlord/roles/constructor/probe.h"
#include "overlord/roles/constructor/unpacking.h"
#include "overlord/runtime/batch_transform.h"
#include "overlord/runtime/buffer.h"
#include "overlord/runtime/seams.h"

namespace overlord::constructor {

struct ConstructorSeams {
  runtime::Transport<protocol::Envelope>* transport = nullptr;
  runtime::Executor* executor = nullptr;
  runtime::Clock* clock = nullptr;
  std::shared_ptr<runtime::BufferPool> pool;
  std::function<void(runtime::Task)> on_loop;
  std::shared_ptr<ConstructorProbe> probe = nullptr;   // to count in; null: one of its own
  runtime::BatchTransform* batch_transform = nullptr;  // where the start has a batch_key
};

struct ConstructorStart {
  ConstructorJob job;
  batch::AssembleSpec assemble;
  std::vector<Rank> ranks;               // clients in this process
  std::vector<model::ClientView> views;  // parallel to ranks
  StepIndex first_step = 0;  // of the run; a restarted one learns from its clients where they are
  protocol::PeerGenerations peers;
  bool hash_batches = false;
  bool shared = true;  // false: every client fetches and lays out for itself, for measurements
  std::vector<model::MediaLayout> media;      // the job's list of delivered fields
  std::shared_ptr<const MediaChains> chains;  // of packed media; null: none can come
  std::shared_ptr<const std::vector<std::string>> source_names = nullptr;  // for a trace
  // Microbatches go through a user's function before they are cut; this decides all chance in it.
  std::optional<uint64_t> batch_key;
};

// Bytes of the slabs of one microbatch, for the budget.
uint64_t microbatch_bytes(const ConstructorStart& start);

class Unshared;

class Constructor {
 public:
  Constructor(ConstructorStart start, ConstructorSeams seams);
  ~Constructor();

  void receive(const protocol::Envelope& envelope);  // on the loop
  const ConstructorProbe& probe() const;
  // Whether a loader's answer for a step has not come; of a shared one.
  bool waits_for(StepIndex step, const protocol::Address& loader) const;

 private:
  class Service;
  std::shared_ptr<Service> service_;
  std::unique_ptr<Unshared> unshared_;  // instead of the service
};

}  // namespace overlord::constructor
