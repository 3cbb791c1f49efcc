// Envelopes as bytes, for carriers between processes and hosts. Versioned (law 13), canonical,
// checked before anything is allocated; what decodes is safe to give to a role, what does not is
// kBadData (or what a RegionTable said) and leaves nothing behind.
//
// Bulk bytes (tokens, masks, fields of slabs) are not copied where both sides share memory: see
// region_table.h. A plan names its table of views, which the carrier sends beforehand
// (plan_codec.h: encode_views).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "overlord/base/fields.h"
#include "overlord/base/status.h"
#include "overlord/protocol/messages.h"
#include "overlord/protocol/plan_codec.h"
#include "overlord/protocol/region_table.h"

namespace overlord::protocol {

// Raised with every change of a field list in message_fields.h and of what wire.cc writes.
inline constexpr uint32_t kWireFormat = 9;

struct EncodeOptions {
  RegionTable* regions = nullptr;  // null: all bytes travel
  // A PlanPublished is for the constructor of this bucket (plan_for_bucket); unset: it is whole.
  std::optional<uint32_t> plan_bucket;
  // The plan of a StepReady as encode_plan wrote it, where the sender has it; null: it is encoded.
  const std::string* plan_bytes = nullptr;
  // A StepReady goes without its plan: the receiver has it (DecodeContext::plan_of).
  bool plan_apart = false;
};

struct DecodeContext {
  PlanContext plans;
  RegionTable* regions = nullptr;
  // The plan of a step whose StepReady came without; null for one that was never sent.
  std::function<model::PlanPtr(StepIndex)> plan_of;
};

// A message without its envelope is the same for all receivers: a carrier that sends one StepReady
// to clients with one view, or one plan to many, encodes it once.
std::string encode_message(const Message& message, const EncodeOptions& options);
Result<Message> decode_message(std::string_view bytes, const DecodeContext& context);

// What a carrier must know to forward or refuse an envelope without reading the rest.
struct EnvelopeHead {
  model::Versions versions;
  Address from;
  Address to;

  OVERLORD_FIELDS(versions, from, to)
};

std::string encode_envelope(const Envelope& envelope, const EncodeOptions& options);
// The same with a message that encode_message wrote.
std::string encode_envelope(const EnvelopeHead& head, std::string_view message);
Result<Envelope> decode_envelope(std::string_view bytes, const DecodeContext& context);
// Cuts the head off `bytes` and leaves the message.
Result<EnvelopeHead> decode_head(std::string_view* bytes);

}  // namespace overlord::protocol
