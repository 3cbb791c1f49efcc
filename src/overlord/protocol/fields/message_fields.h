// The fields of messages, in the order in which they travel (see field_codec.h). Messages with bulk
// bytes and plans have their own functions in wire.cc.
#pragma once

#include <string>

#include "overlord/model/encoder_part.h"
#include "overlord/model/microbatch.h"
#include "overlord/model/sample_meta.h"
#include "overlord/protocol/feedback_codec.h"
#include "overlord/protocol/fields/plan_fields.h"
#include "overlord/protocol/messages.h"

namespace overlord::protocol {

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
struct Fields<model::MicrobatchCore> {
  static void list(auto& codec, auto& value) {
    auto& [step, index, count, step_target_tokens, token_type, weight_type, context, boundaries,
           lineage, hdp, hdp_bin] = value;
    codec(step, index, count, step_target_tokens, token_type, weight_type, context, boundaries);
    codec(lineage, hdp_bin);
    static_cast<void>(hdp);  // the plan's own: wire.cc puts it there
  }
};

}  // namespace overlord::protocol
