#include "overlord/node/status_codec.h"

#include "overlord/protocol/field_codec.h"

namespace overlord::protocol {

template <>
struct Fields<node::LoaderStatus> {
  static void list(auto& codec, auto& value) {
    auto& [source, slot, queue, in_work, rows_posted, documents, read_bytes, buffer_bytes,
           transform_ns, read_wait_ns, file_state_bytes, bad_rows, blocks_read, cache_hits,
           decode_ns, tokenise_ns, media_ns, sent_bytes, python_ns, decode_in_bytes,
           decode_out_bytes, tokenise_in_bytes, tokenise_out_bytes, media_in_bytes, media_out_bytes,
           media_blobs, reading_bytes, reading_peak_bytes, buffer_peak_bytes, in_flight_bytes,
           in_flight_peak_bytes, worker_bytes, worker_peak_bytes, empty_rows] = value;
    codec(source, slot, queue, in_work, rows_posted, documents, read_bytes, buffer_bytes);
    codec(transform_ns, read_wait_ns, file_state_bytes, bad_rows, blocks_read, cache_hits);
    codec(decode_ns, tokenise_ns, media_ns, sent_bytes, python_ns, decode_in_bytes);
    codec(decode_out_bytes, tokenise_in_bytes, tokenise_out_bytes, media_in_bytes);
    codec(media_out_bytes, media_blobs, reading_bytes, reading_peak_bytes, buffer_peak_bytes);
    codec(in_flight_bytes, in_flight_peak_bytes, worker_bytes, worker_peak_bytes, empty_rows);
  }
};
template <>
struct Fields<node::UnpackStatus> {
  static void list(auto& codec, auto& value) {
    auto& [source, blobs, unpack_ns, in_bytes, out_bytes, held_bytes, peak_bytes] = value;
    codec(source, blobs, unpack_ns, in_bytes, out_bytes, held_bytes, peak_bytes);
  }
};
template <>
struct Fields<node::ConstructorStatus> {
  static void list(auto& codec, auto& value) {
    auto& [bucket, steps_ready, steps_held, payloads, assemble_ns, bytes_assembled] = value;
    codec(bucket, steps_ready, steps_held, payloads, assemble_ns, bytes_assembled);
  }
};
template <>
struct Fields<node::ClientStatus> {
  static void list(auto& codec, auto& value) {
    auto& [rank, steps_arrived, steps_consumed, microbatches, wait_ns, queue] = value;
    codec(rank, steps_arrived, steps_consumed, microbatches, wait_ns, queue);
  }
};
template <>
struct Fields<runtime::PoolStats> {
  static void list(auto& codec, auto& value) {
    auto& [held_bytes, idle_bytes, fresh_count, reused_count] = value;
    codec(held_bytes, idle_bytes, fresh_count, reused_count);
  }
};
template <>
struct Fields<runtime::ExecutorStats> {
  static void list(auto& codec, auto& value) {
    auto& [queued, delayed, executed, dropped, busy_ns] = value;
    codec(queued, delayed, executed, dropped, busy_ns);
  }
};
template <>
struct Fields<node::CalloutStatus> {
  static void list(auto& codec, auto& value) {
    auto& [answers, answer_ns, waits_for, step, waiting_ns] = value;
    codec(answers, answer_ns, waits_for, step, waiting_ns);
  }
};
template <>
struct Fields<node::EngineStatus> {
  static void list(auto& codec, auto& value) {
    auto& [predicted_ns, arrival_ns, fullest_ns, bound_ns, encoder_predicted_ns, encoder_arrival_ns,
           encoder_mean_ns, encoder_bound_ns, segments, segments_waited, steps_waited, longest_wait,
           plans, planning_ns, planner_waits, meta_windows, queue_depth, loaders, constructors,
           unpacking, clients, payload_bytes, payload_limit_bytes, callouts, pool, executor] =
        value;
    codec(predicted_ns, arrival_ns, fullest_ns, bound_ns, encoder_predicted_ns);
    codec(encoder_arrival_ns, encoder_mean_ns, encoder_bound_ns, segments, segments_waited);
    codec(steps_waited, longest_wait, plans, planning_ns, planner_waits);
    codec(meta_windows, queue_depth, loaders, constructors, unpacking, clients, payload_bytes);
    codec(payload_limit_bytes, callouts, pool, executor);
  }
};
template <>
struct Fields<node::ProcessStatus> {
  static void list(auto& codec, auto& value) {
    auto& [name, process, generation, restarts, connected, roles] = value;
    codec(name, process, generation, restarts, connected, roles);
  }
};
template <>
struct Fields<node::NodeStatus> {
  static void list(auto& codec, auto& value) {
    auto& [engine, job, stream, attempt, serving, restarts, process, processes, missing, gone,
           waits] = value;
    codec(engine, job, stream, attempt, serving, restarts, process, processes, missing, gone);
    codec(waits);
  }
};

}  // namespace overlord::protocol

namespace overlord::node {
namespace {

template <typename T>
std::string encode(const T& value) {
  ByteWriter writer;
  protocol::FieldWriter fields(&writer);
  fields(value);
  return writer.take();
}

template <typename T>
Result<T> decode(std::string_view bytes, std::string_view what) {
  ByteReader reader(bytes);
  protocol::FieldReader fields(&reader);
  T value;
  fields(value);
  OVERLORD_RETURN_IF_ERROR(fields.status(what));
  return value;
}

template <typename T>
void append(const std::vector<T>& part, std::vector<T>* whole) {
  whole->insert(whole->end(), part.begin(), part.end());
}

}  // namespace

std::string encode_engine_status(const EngineStatus& status) { return encode(status); }
Result<EngineStatus> decode_engine_status(std::string_view bytes) {
  return decode<EngineStatus>(bytes, "status of a process");
}
std::string encode_node_status(const NodeStatus& status) { return encode(status); }
Result<NodeStatus> decode_node_status(std::string_view bytes) {
  return decode<NodeStatus>(bytes, "status of a node");
}

void add_constructor(const ConstructorStatus& part, std::vector<ConstructorStatus>* whole) {
  for (ConstructorStatus& known : *whole) {
    if (known.bucket != part.bucket) continue;
    known.steps_ready += part.steps_ready;
    known.steps_held += part.steps_held;
    known.payloads += part.payloads;
    known.assemble_ns += part.assemble_ns;
    known.bytes_assembled += part.bytes_assembled;
    return;
  }
  whole->push_back(part);
}

void add_unpacking(const UnpackStatus& part, std::vector<UnpackStatus>* whole) {
  for (UnpackStatus& known : *whole) {
    if (known.source != part.source) continue;
    known.blobs += part.blobs;
    known.unpack_ns += part.unpack_ns;
    known.in_bytes += part.in_bytes;
    known.out_bytes += part.out_bytes;
    known.held_bytes += part.held_bytes;
    known.peak_bytes += part.peak_bytes;
    return;
  }
  whole->push_back(part);
}

void merge_status(const EngineStatus& part, EngineStatus* whole) {
  whole->queue_depth += part.queue_depth;
  append(part.loaders, &whole->loaders);
  for (const ConstructorStatus& constructor : part.constructors) {
    add_constructor(constructor, &whole->constructors);
  }
  for (const UnpackStatus& one : part.unpacking) add_unpacking(one, &whole->unpacking);
  append(part.clients, &whole->clients);
  whole->payload_bytes += part.payload_bytes;
  whole->payload_limit_bytes += part.payload_limit_bytes;
  whole->pool.held_bytes += part.pool.held_bytes;
  whole->pool.idle_bytes += part.pool.idle_bytes;
  whole->pool.fresh_count += part.pool.fresh_count;
  whole->pool.reused_count += part.pool.reused_count;
  whole->executor.queued += part.executor.queued;
  whole->executor.delayed += part.executor.delayed;
  whole->executor.executed += part.executor.executed;
  whole->executor.dropped += part.executor.dropped;
  whole->executor.busy_ns += part.executor.busy_ns;
}

}  // namespace overlord::node
