// The fields of a job, in the order in which they travel (see field_codec.h); sections follow the
// order of spec_codec.cc. Everything is carried here, also what no digest covers.
#pragma once

#include <utility>

#include "overlord/model/job_spec.h"
#include "overlord/model/mesh.h"
#include "overlord/protocol/field_codec.h"
#include "overlord/protocol/job_codec.h"

namespace overlord::protocol {

template <>
struct Fields<model::CostTerm> {
  static void list(auto& codec, auto& value) {
    auto& [column, constant_q32, linear_q32, quadratic_q32, constant_bytes_q16, linear_bytes_q16] =
        value;
    codec(column, constant_q32, linear_q32, quadratic_q32, constant_bytes_q16, linear_bytes_q16);
  }
};

template <>
struct Fields<model::CostModel> {
  static void list(auto& codec, auto& value) {
    auto& [kind, bin_q32, terms] = value;
    codec(kind, bin_q32, terms);
  }
};

template <>
struct Fields<model::PackingSpec> {
  static void list(auto& codec, auto& value) {
    auto& [method, slack_permille, max_delay_steps] = value;
    codec(method, slack_permille, max_delay_steps);
  }
};

template <>
struct Fields<model::WindowSpec> {
  static void list(auto& codec, auto& value) {
    auto& [steps, max_delay, width, cost] = value;
    codec(steps, max_delay, width, cost);
  }
};

template <>
struct Fields<model::MixtureStage> {
  static void list(auto& codec, auto& value) {
    auto& [first_step, weights, ramp, ramp_steps] = value;
    codec(first_step, weights, ramp, ramp_steps);
  }
};

template <>
struct Fields<model::ControllerSpec> {
  static void list(auto& codec, auto& value) {
    auto& [kind, delay, smoothing, history_rate, follow_rate, history_exponent, floor, fit_every,
           fit_after, rule_version] = value;
    codec(kind, delay, smoothing, history_rate, follow_rate, history_exponent, floor, fit_every);
    codec(fit_after, rule_version);
  }
};

template <>
struct Fields<model::Mixture> {
  static void list(auto& codec, auto& value) {
    auto& [unit, quota, stages, version, grain, epoch_steps, epoch_source, max_passes, controller] =
        value;
    codec(unit, quota, stages, version, grain, epoch_steps, epoch_source, max_passes, controller);
  }
};

template <>
struct Fields<model::HdpModel> {
  static void list(auto& codec, auto& value) {
    auto& [square_fs, token_fs, fixed_fs, forward_permille, activation_token_bytes,
           activation_fixed_bytes, layers, capacity, to_host_per_s, from_host_per_s, host_bytes,
           ring_token_bytes, ring_per_s, ring_hop_ns] = value;
    codec(square_fs, token_fs, fixed_fs, forward_permille, activation_token_bytes);
    codec(activation_fixed_bytes, layers, capacity, to_host_per_s, from_host_per_s, host_bytes);
    codec(ring_token_bytes, ring_per_s, ring_hop_ns);
  }
};

template <>
struct Fields<model::HdpSpec> {
  static void list(auto& codec, auto& value) {
    auto& [model, method, balance, offload, powers_of_two, max_microbatches] = value;
    codec(model, method, balance, offload, powers_of_two, max_microbatches);
  }
};

template <>
struct Fields<model::EncoderStrategy> {
  static void list(auto& codec, auto& value) {
    auto& [module, axis, group_size, column, cost, balance, parity, bytes_per_unit] = value;
    codec(module, axis, group_size, column, cost, balance, parity, bytes_per_unit);
  }
};

template <>
struct Fields<model::CalloutFunction> {
  static void list(auto& codec, auto& value) {
    auto& [name, version, scale] = value;
    codec(name, version, scale);
  }
};

template <>
struct Fields<model::Strategy> {
  static void list(auto& codec, auto& value) {
    auto& [name, axis, group_size, has_cost, cost, further_costs, balance, level, atoms,
           microbatch_tokens, memory_limit, order, virtual_stages, backward_permille, hdp, encoder,
           cost_by, balance_by, plan_by] = value;
    codec(name, axis, group_size, has_cost, cost, further_costs, balance, level, atoms);
    codec(microbatch_tokens, memory_limit, order, virtual_stages, backward_permille, hdp, encoder);
    codec(cost_by, balance_by, plan_by);
  }
};

template <>
struct Fields<model::RowFilter> {
  static void list(auto& codec, auto& value) {
    auto& [column, least, most] = value;
    codec(column, least, most);
  }
};

template <>
struct Fields<model::Tokenizer> {
  static void list(auto& codec, auto& value) {
    auto& [kind, path, digest, add_special_tokens, chat] = value;
    codec(kind, path, digest, add_special_tokens, chat);
  }
};

template <>
struct Fields<model::SourceLimits> {
  static void list(auto& codec, auto& value) {
    auto& [max_document_bytes, max_block_bytes, max_expansion, max_media_bytes] = value;
    codec(max_document_bytes, max_block_bytes, max_expansion, max_media_bytes);
  }
};

template <>
struct Fields<model::Transform> {
  static void list(auto& codec, auto& value) {
    auto& [function, version, lane, command, workers, batch_rows, deadline_ms, memory_bytes,
           check_every] = value;
    codec(function, version, lane, command, workers, batch_rows, deadline_ms, memory_bytes);
    codec(check_every);
  }
};

template <>
struct Fields<model::MediaUse> {
  static void list(auto& codec, auto& value) {
    auto& [kind, transform, decoder, pad, before, after, pads, units_per_pad, in_text, function] =
        value;
    codec(kind, transform, decoder, pad, before, after, pads, units_per_pad, in_text, function);
  }
};

template <>
struct Fields<model::MediaField> {
  static void list(auto& codec, auto& value) {
    auto& [name, from, use, many] = value;
    codec(name, from, use, many);
  }
};

template <>
struct Fields<model::RowSchema> {
  static void list(auto& codec, auto& value) {
    auto& [text, columns, required, expected, marker, separator, masked] = value;
    codec(text, columns, required, expected, marker, separator, masked);
  }
};

template <>
struct Fields<model::Source> {
  static void list(auto& codec, auto& value) {
    auto& [name, format, files, text_column, token_column, mask_column, metadata_columns, filter,
           media, tokenizer, bos, eod, vocabulary, shuffle, window_rows, window_bytes, at_end,
           over_length, bad_rows_allowed, allow_duplicates, limits, loaders, workers, count_bytes,
           transform, decode_at, schema, empty] = value;
    codec(name, format, files, text_column, token_column, mask_column, metadata_columns, filter);
    codec(media);
    codec(tokenizer, bos, eod, vocabulary, shuffle, window_rows, window_bytes, at_end, over_length);
    codec(bad_rows_allowed, allow_duplicates, limits, loaders, workers, count_bytes);
    codec(transform, decode_at, schema, empty);
  }
};

template <>
struct Fields<model::JobSpec> {
  static void list(auto& codec, auto& value) {
    auto& [name, stream, seed, context, bins, substeps, align, pad_token, max_steps, leftover,
           packing, window, mixture, strategy, sources, columns, batch_transform] = value;
    codec(name, stream, seed, context, bins, substeps, align, pad_token, max_steps, leftover);
    codec(packing, window, mixture, strategy, sources, columns, batch_transform);
  }
};

template <>
struct Fields<model::DeliverySpec> {
  static void list(auto& codec, auto& value) {
    auto& [microbatch_size, fill_empty, slicing, token_type, weight_type, all_stages,
           broadcast_axes] = value;
    codec(microbatch_size, fill_empty, slicing, token_type, weight_type, all_stages);
    codec(broadcast_axes);
  }
};

template <>
struct Fields<model::RuntimeOptions> {
  static void list(auto& codec, auto& value) {
    auto& [threads, io_threads, prefetch_steps, runway, payload_budget_bytes,
           constructor_budget_bytes, private_copy_limit_bytes, open_files, tokenizer_processes,
           alarm_ms, hash_batches, reporters, one_planner] = value;
    codec(threads, io_threads, prefetch_steps, runway, payload_budget_bytes);
    codec(constructor_budget_bytes, private_copy_limit_bytes, open_files, tokenizer_processes);
    codec(alarm_ms, hash_batches, reporters, one_planner);
  }
};

template <>
struct Fields<model::Axis> {
  static void list(auto& codec, auto& value) {
    auto& [name, size] = value;
    codec(name, size);
  }
};

// A mesh is its axes.
template <>
struct Fields<model::Mesh> {
  template <typename Codec>
  static void list(Codec& codec, auto& value) {
    std::vector<model::Axis> axes = value.axes();
    codec(axes);
    if constexpr (!kIsWriter<Codec>) {
      if constexpr (kIsReader<Codec>) {
        if (codec.failed()) return;
      }
      auto mesh = model::Mesh::make(std::move(axes));
      if (!mesh.ok()) return codec.refuse();
      value = std::move(mesh).value();
    }
  }
};

template <>
struct Fields<AllowedChanges> {
  static void list(auto& codec, auto& value) {
    auto& [mixture, sources] = value;
    codec(mixture, sources);
  }
};

template <>
struct Fields<JobFile> {
  static void list(auto& codec, auto& value) {
    auto& [spec, delivery, mesh, runtime, attempt, ranks, index_paths, state, worker_command,
           journal_path] = value;
    codec(spec, delivery, mesh, runtime, attempt, ranks, index_paths, state);
    codec(worker_command, journal_path);
  }
};

}  // namespace overlord::protocol
