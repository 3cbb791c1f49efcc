// The fields of messages, in the order in which they travel (see field_codec.h). Messages with bulk
// bytes and plans have their own functions in wire.cc.
#pragma once

#include <string>

#include "overlord/model/encoder_part.h"
#include "overlord/model/microbatch.h"
#include "overlord/model/sample_meta.h"
#include "overlord/protocol/feedback_codec.h"
#include "overlord/protocol/messages.h"
#include "overlord/protocol/plan_fields.h"

namespace overlord::protocol {

template <>
struct Fields<Address> {
  static void list(auto& codec, auto& value) {
    auto& [kind, index, slot] = value;
    codec(kind, index, slot);
  }
};

template <>
struct Fields<MetaGrant> {
  static void list(auto& codec, auto& value) {
    auto& [window_limit, first_window] = value;
    codec(window_limit, first_window);
  }
};

template <>
struct Fields<model::MetaColumn> {
  static void list(auto& codec, auto& value) {
    auto& [name, values] = value;
    codec(name, values);
  }
};

template <>
struct Fields<model::BadRow> {
  static void list(auto& codec, auto& value) {
    auto& [index, reason] = value;
    codec(index, reason);
  }
};

template <>
struct Fields<model::MetaWindow> {
  static void list(auto& codec, auto& value) {
    auto& [first, tokens, span_ends, spans, columns, bad, generation] = value;
    codec(first, tokens, span_ends, spans, columns, bad, generation);
  }
};

template <>
struct Fields<MetaPosted> {
  static void list(auto& codec, auto& value) {
    auto& [sequence, window] = value;
    codec(sequence);
    codec(window);
  }
};

template <>
struct Fields<Undecodable> {
  static void list(auto& codec, auto& value) {
    auto& [id, reason] = value;
    codec(id, reason);
  }
};

template <>
struct Fields<Fetch> {
  static void list(auto& codec, auto& value) {
    auto& [step, bucket, undecodable] = value;
    codec(step, bucket, undecodable);
  }
};

template <>
struct Fields<Get> {
  static void list(auto& codec, auto& value) {
    auto& [step, acknowledged] = value;
    codec(step, acknowledged);
  }
};

template <>
struct Fields<Acknowledged> {
  static void list(auto& codec, auto& value) {
    auto& [acknowledged] = value;
    codec(acknowledged);
  }
};

// A failure; that all is well is not said by a Status.
template <>
struct Fields<Status> {
  template <typename Codec>
  static void list(Codec& codec, auto& value) {
    Code code = value.code();
    std::string message = value.message();
    codec(code, message);
    if constexpr (!kIsWriter<Codec>) {
      if (code == Code::kOk) return codec.refuse();
      value = Status(code, std::move(message));
    }
  }
};

template <>
struct Fields<StreamFailed> {
  static void list(auto& codec, auto& value) {
    auto& [step, status] = value;
    codec(step, status);
  }
};

template <>
struct Fields<LateBad> {
  static void list(auto& codec, auto& value) {
    auto& [step, id, reason] = value;
    codec(step, id, reason);
  }
};

// Its own codec, which the journal uses too, inside this one.
template <>
struct Fields<model::StepFeedback> {
  template <typename Codec>
  static void list(Codec& codec, auto& value) {
    if constexpr (kIsWriter<Codec>) {
      ByteWriter writer;
      write_feedback(&writer, value);
      codec.bytes().text(writer.bytes());
    } else if constexpr (kIsReader<Codec>) {
      const std::string_view bytes = codec.bytes().text();
      ByteReader reader(bytes);
      value = read_feedback(&reader);
      if (!reader.status("feedback").ok()) return codec.refuse();
      ByteWriter again;
      write_feedback(&again, value);
      if (again.bytes() != bytes) codec.refuse();
    }
  }
};

template <>
struct Fields<Report> {
  static void list(auto& codec, auto& value) {
    auto& [part] = value;
    codec(part);
  }
};

template <>
struct Fields<PeerRestarted> {
  static void list(auto& codec, auto& value) {
    auto& [role, generation] = value;
    codec(role, generation);
  }
};

template <>
struct Fields<ReportAnswered> {
  static void list(auto& codec, auto& value) {
    auto& [step, verdict] = value;
    codec(step, verdict);
  }
};

template <>
struct Fields<model::Boundaries> {
  static void list(auto& codec, auto& value) {
    auto& [cu_seqlens, cu_seqlens_padded, max_seqlen, documents, tokens, target_tokens] = value;
    codec(cu_seqlens, cu_seqlens_padded, max_seqlen, documents, tokens, target_tokens);
  }
};

template <>
struct Fields<model::MicrobatchCore> {
  static void list(auto& codec, auto& value) {
    auto& [step, index, count, step_target_tokens, token_type, weight_type, context, boundaries,
           lineage, hdp, hdp_bin] = value;
    codec(step, index, count, step_target_tokens, token_type, weight_type, context, boundaries);
    codec(lineage, hdp_bin);
    static_cast<void>(hdp);  // the plan's own: wire.cc puts it there
  }
};

template <>
struct Fields<model::EncoderPart> {
  static void list(auto& codec, auto& value) {
    auto& [module, encoder, encoders, runs, receives, dummy, bytes_per_unit, group, samples,
           send_order, sends, received, documents, receive_order, receives_from] = value;
    codec(module, encoder, encoders, runs, receives, dummy, bytes_per_unit, group, samples);
    codec(send_order, sends, received, documents, receive_order, receives_from);
  }
};

}  // namespace overlord::protocol
