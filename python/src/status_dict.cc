#include "status_dict.h"

#include <nanobind/stl/string.h>

#include "overlord/plan/mixing.h"

namespace nb = nanobind;

namespace overlord::python {
namespace {

// Digests of sources are kept as 64 bits in a state; people see the same 16 digits everywhere.
std::string short_hex(const Digest& digest) { return digest.hex().substr(16); }

nb::dict loader_dict(const node::LoaderStatus& loader) {
  nb::dict out;
  out["source"] = loader.source;
  out["slot"] = loader.slot;
  out["queue"] = loader.queue;
  out["in_work"] = loader.in_work;
  out["rows_posted"] = loader.rows_posted;
  out["documents"] = loader.documents;
  out["read_bytes"] = loader.read_bytes;
  out["buffer_bytes"] = loader.buffer_bytes;
  out["transform_ns"] = loader.transform_ns;
  out["read_wait_ns"] = loader.read_wait_ns;
  out["file_state_bytes"] = loader.file_state_bytes;
  out["bad_rows"] = loader.bad_rows;
  out["blocks_read"] = loader.blocks_read;
  out["cache_hits"] = loader.cache_hits;
  out["decode_ns"] = loader.decode_ns;
  out["tokenise_ns"] = loader.tokenise_ns;
  out["media_ns"] = loader.media_ns;
  out["sent_bytes"] = loader.sent_bytes;
  out["python_ns"] = loader.python_ns;
  out["decode_in_bytes"] = loader.decode_in_bytes;
  out["decode_out_bytes"] = loader.decode_out_bytes;
  out["tokenise_in_bytes"] = loader.tokenise_in_bytes;
  out["tokenise_out_bytes"] = loader.tokenise_out_bytes;
  out["media_in_bytes"] = loader.media_in_bytes;
  out["media_out_bytes"] = loader.media_out_bytes;
  out["media_blobs"] = loader.media_blobs;
  out["reading_bytes"] = loader.reading_bytes;
  out["reading_peak_bytes"] = loader.reading_peak_bytes;
  out["buffer_peak_bytes"] = loader.buffer_peak_bytes;
  out["in_flight_bytes"] = loader.in_flight_bytes;
  out["in_flight_peak_bytes"] = loader.in_flight_peak_bytes;
  out["worker_bytes"] = loader.worker_bytes;
  out["worker_peak_bytes"] = loader.worker_peak_bytes;
  return out;
}

nb::dict unpack_dict(const node::UnpackStatus& unpacking) {
  nb::dict out;
  out["source"] = unpacking.source;
  out["blobs"] = unpacking.blobs;
  out["unpack_ns"] = unpacking.unpack_ns;
  out["in_bytes"] = unpacking.in_bytes;
  out["out_bytes"] = unpacking.out_bytes;
  out["held_bytes"] = unpacking.held_bytes;
  out["peak_bytes"] = unpacking.peak_bytes;
  return out;
}

// The user's function that the planner waits for; None: for none.
nb::object waiting_dict(const node::CalloutStatus& callouts) {
  if (callouts.waits_for.empty()) return nb::none();
  nb::dict out;
  out["function"] = callouts.waits_for;
  out["step"] = callouts.step;
  out["waiting_ns"] = callouts.waiting_ns;
  return out;
}

nb::dict constructor_dict(const node::ConstructorStatus& constructor) {
  nb::dict out;
  out["bucket"] = constructor.bucket;
  out["steps_ready"] = constructor.steps_ready;
  out["steps_held"] = constructor.steps_held;
  out["payloads"] = constructor.payloads;
  out["assemble_ns"] = constructor.assemble_ns;
  out["bytes_assembled"] = constructor.bytes_assembled;
  return out;
}

nb::dict client_dict(const node::ClientStatus& client) {
  nb::dict out;
  out["rank"] = client.rank;
  out["steps_arrived"] = client.steps_arrived;
  out["steps_consumed"] = client.steps_consumed;
  out["microbatches"] = client.microbatches;
  out["wait_ns"] = client.wait_ns;
  out["queue"] = client.queue;
  return out;
}

}  // namespace

nb::dict status_dict(const node::EngineStatus& status) {
  nb::dict planner;
  planner["plans"] = status.plans;
  planner["planning_ns"] = status.planning_ns;
  planner["predicted_ns"] = status.predicted_ns;
  planner["arrival_ns"] = status.arrival_ns;
  planner["fullest_ns"] = status.fullest_ns;
  planner["bound_ns"] = status.bound_ns;
  nb::dict encoder;
  encoder["predicted_ns"] = status.encoder_predicted_ns;
  encoder["arrival_ns"] = status.encoder_arrival_ns;
  encoder["mean_ns"] = status.encoder_mean_ns;
  encoder["bound_ns"] = status.encoder_bound_ns;
  planner["encoder"] = encoder;
  planner["segments"] = status.segments;
  planner["segments_waited"] = status.segments_waited;
  planner["steps_waited"] = status.steps_waited;
  planner["longest_wait"] = status.longest_wait;
  planner["waits"] = status.planner_waits;
  planner["meta_windows"] = status.meta_windows;
  planner["callouts"] = status.callouts.answers;
  planner["callout_ns"] = status.callouts.answer_ns;
  planner["waits_for_function"] = waiting_dict(status.callouts);
  nb::dict memory;
  memory["payload_bytes"] = status.payload_bytes;
  memory["payload_limit_bytes"] = status.payload_limit_bytes;
  memory["pool_held_bytes"] = status.pool.held_bytes;
  memory["pool_idle_bytes"] = status.pool.idle_bytes;
  memory["pool_fresh"] = status.pool.fresh_count;
  memory["pool_reused"] = status.pool.reused_count;
  nb::dict executor;
  executor["queued"] = status.executor.queued;
  executor["executed"] = status.executor.executed;
  executor["busy_ns"] = status.executor.busy_ns;
  nb::list loaders, constructors, unpacking, clients;
  for (const auto& loader : status.loaders) loaders.append(loader_dict(loader));
  for (const auto& constructor : status.constructors) {
    constructors.append(constructor_dict(constructor));
  }
  for (const auto& one : status.unpacking) unpacking.append(unpack_dict(one));
  for (const auto& client : status.clients) clients.append(client_dict(client));
  nb::dict out;
  out["planner"] = planner;
  out["loaders"] = loaders;
  out["constructors"] = constructors;
  out["unpacking"] = unpacking;
  out["clients"] = clients;
  out["memory"] = memory;
  out["executor"] = executor;
  out["queue_depth"] = status.queue_depth;
  return out;
}

nb::list quarantine_list(const std::vector<loader::QuarantineNote>& notes) {
  nb::list out;
  for (const loader::QuarantineNote& note : notes) {
    nb::dict row;
    row["source"] = note.id.source;
    row["pass"] = note.id.pass;
    row["position"] = note.id.position;
    row["row"] = note.row;
    row["reason"] = note.reason;
    row["when"] = note.late ? "late" : "before planning";
    out.append(row);
  }
  return out;
}

nb::dict section_dict(const std::vector<protocol::SectionDigest>& sections) {
  nb::dict out;
  for (const protocol::SectionDigest& section : sections) {
    const bool source = section.name.starts_with("source:");
    out[section.name.c_str()] = source ? short_hex(section.digest) : section.digest.hex();
  }
  return out;
}

nb::dict state_dict(const protocol::ResumeState& state) {
  nb::dict sources;
  for (size_t s = 0; s < state.source_names.size(); ++s) {
    const model::SourceCursor& cursor = state.state.cursors[s];
    nb::dict row;
    row["digest"] = short_hex(state.source_digests[s]);
    row["pass"] = cursor.pass;
    row["position"] = cursor.position;
    row["samples"] = cursor.samples;
    row["tokens"] = cursor.tokens;
    row["bad"] = cursor.bad;
    row["dropped"] = cursor.dropped;
    row["debt"] = static_cast<double>(cursor.debt) / static_cast<double>(plan::kDebtOne);
    sources[state.source_names[s].c_str()] = row;
  }
  nb::dict out;
  out["format"] = protocol::state_format(state);
  out["stream"] = state.stream;
  out["step"] = state.state.next_step;
  out["microbatch"] = state.microbatch;
  out["layout"] = state.layout;
  out["ended"] = state.state.ended;
  out["config_digest"] = state.config.hex();
  out["manifest_digest"] = state.manifest.hex();
  out["content_chain"] = state.content_chain.hex();
  out["plan_chain"] = state.plan_chain.hex();
  out["sections"] = section_dict(state.sections);
  out["sources"] = sources;
  // The newest weights of a metric-driven mixture: a rule's may have been decided and not count
  // yet.
  nb::dict weights;
  for (size_t s = 0; s < state.state.controller.sources.size(); ++s) {
    weights[state.source_names[s].c_str()] = state.state.controller.sources[s].weight;
  }
  for (const model::StepFeedback& feedback : state.feedback) {
    for (size_t s = 0; s < feedback.weights.size(); ++s) {
      weights[state.source_names[s].c_str()] = feedback.weights[s];
    }
  }
  out["weights"] = weights;
  out["carried"] = state.state.carried.size();
  out["leftover_dropped"] = state.state.leftover_dropped;
  return out;
}

}  // namespace overlord::python
