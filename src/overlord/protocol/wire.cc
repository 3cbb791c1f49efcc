#include "overlord/protocol/wire.h"

#include <algorithm>
#include <utility>

#include "overlord/model/plan_index.h"
#include "overlord/protocol/bulk_codec.h"
#include "overlord/protocol/fields/media_fields.h"
#include "overlord/protocol/fields/message_fields.h"

namespace overlord::protocol {

namespace {

// The fields of a slab that hold bulk bytes, in the order in which they travel.
struct SlabField {
  model::FieldView model::Slab::* view;
  uint8_t bit;
};
constexpr SlabField kSlabFields[] = {{&model::Slab::tokens, model::kFieldTokens},
                                     {&model::Slab::targets, model::kFieldTargets},
                                     {&model::Slab::loss_weights, model::kFieldLossWeights},
                                     {&model::Slab::positions, model::kFieldPositions}};

uint64_t element_bytes(const model::MicrobatchCore& core, uint8_t field) {
  if (field == model::kFieldPositions) return sizeof(int32_t);
  if (field == model::kFieldLossWeights) {
    return core.weight_type == model::WeightType::kUint8 ? 1 : sizeof(float);
  }
  switch (core.token_type) {
    case model::TokenType::kUint16:
      return 2;
    case model::TokenType::kInt32:
      return 4;
    case model::TokenType::kInt64:
      break;
  }
  return 8;
}

// Cores and slabs of the microbatches of one step, each once, in the order of first mention.
template <typename T>
class Shared {
 public:
  size_t number(const std::shared_ptr<const T>& value) {
    const auto found = std::find(values.begin(), values.end(), value);
    if (found != values.end()) return static_cast<size_t>(found - values.begin());
    values.push_back(value);
    return values.size() - 1;
  }
  std::vector<std::shared_ptr<const T>> values;
};

class MessageWriter {
 public:
  explicit MessageWriter(const EncodeOptions& options)
      : options_(options), fields_(&bytes_), bulk_(options.regions) {}

  std::string finish(size_t kind) {
    ByteWriter out;
    out.varint(kind);
    out.text(bulk_.attachment());
    out.raw(bytes_.bytes().data(), bytes_.size());
    return out.take();
  }

  template <typename Plain>
  void operator()(const Plain& message) {
    fields_(message);
  }

  void operator()(const PlanPublished& message) {
    const auto& [plan, index] = message;  // the receiver derives the rest of the index
    const auto& bucket = options_.plan_bucket;
    bytes_.text(encode_plan(bucket ? plan_for_bucket(*plan, *bucket) : *plan));
    for (uint32_t b = 0; b < index->buckets.size(); ++b) {
      const bool told = !bucket || b == *bucket;
      fields_(told ? index->buckets[b].readers : std::vector<model::LoaderSlot>());
    }
  }

  void operator()(const PayloadPtr& message) {
    const auto& [step, bucket, source, slot, ordinals, spans, holders, media, encoded] = *message;
    fields_(step, bucket, source, slot, ordinals);
    for (const model::TokenSpan& span : spans) {
      const auto& [data, mask, count, element] = span;
      fields_(count, element);
      bulk_.write(&bytes_, data, uint64_t{count} * model::element_bytes(element));
      bulk_.write(&bytes_, mask, count);
    }
    write_pieces(media);
    write_pieces(encoded);
  }

  void operator()(const StepReady& message) {
    const auto& [step, plan, microbatches] = message;
    fields_(step);
    options_.plan_apart ? bytes_.text({}) : write_plan(*plan);
    Shared<model::MicrobatchCore> cores;
    Shared<model::Slab> slabs;
    std::vector<uint8_t> seen;  // by slab: fields that some microbatch shows
    for (const model::MicrobatchPtr& batch : microbatches) {
      cores.number(batch->core);
      if (!batch->slab) continue;
      const size_t slab = slabs.number(batch->slab);
      seen.resize(slabs.values.size());
      seen[slab] |= batch->view.fields;
    }
    fields_(static_cast<uint32_t>(cores.values.size()), static_cast<uint32_t>(slabs.values.size()));
    for (const auto& core : cores.values) fields_(*core);
    for (size_t i = 0; i < slabs.values.size(); ++i) write_slab(*slabs.values[i], seen[i]);
    fields_(static_cast<uint32_t>(microbatches.size()));
    for (const model::MicrobatchPtr& batch : microbatches) {
      const auto& [core, slab, view, digest, encoder, media, encoded] = *batch;
      const size_t slab_number = slab ? slabs.number(slab) + 1 : 0;
      fields_(static_cast<uint32_t>(cores.number(core)), static_cast<uint32_t>(slab_number));
      fields_(view, digest, encoder);
      write_media(media);
      write_media(encoded);
    }
  }

 private:
  void write_plan(const model::Plan& plan) {
    if (options_.plan_bytes != nullptr) return bytes_.text(*options_.plan_bytes);
    bytes_.text(encode_plan(plan));
  }

  void write_pieces(const std::vector<model::MediaPiece>& pieces) {
    fields_(static_cast<uint32_t>(pieces.size()));
    for (const model::MediaPiece& piece : pieces) {
      fields_(piece);
      bulk_.write(&bytes_, piece.data.data, piece.data.size_bytes);
    }
  }

  void write_media(const model::MediaSlabs& media) {
    fields_(static_cast<uint32_t>(media ? media->size() : 0));
    if (!media) return;
    for (const model::MediaSlab& slab : *media) {
      fields_(slab);
      bulk_.write(&bytes_, slab.data.data, slab.data.size_bytes);
    }
  }

  void write_slab(const model::Slab& value, uint8_t seen) {
    const auto& [holder, rows, columns, tokens, targets, loss_weights, positions] = value;
    fields_(rows, columns);
    for (const SlabField& field : kSlabFields) {
      const model::FieldView& view = value.*field.view;
      const bool shown = (seen & field.bit) != 0;
      bulk_.write(&bytes_, shown ? view.data : nullptr, view.size_bytes);
    }
  }

  const EncodeOptions& options_;
  ByteWriter bytes_;
  FieldWriter fields_;
  BulkWriter bulk_;
};

bool fits(const model::MetaWindow& window, uint32_t sources) {
  const size_t rows = window.tokens.size();
  const auto& ends = window.span_ends;
  if (window.first.source >= sources) return false;
  if (ends.empty() ? !window.spans.empty() : ends.size() != rows) return false;
  if (!std::is_sorted(ends.begin(), ends.end())) return false;
  if (!ends.empty() && ends.back() != window.spans.size()) return false;
  for (const model::MetaColumn& column : window.columns) {
    if (column.values.size() != rows) return false;
  }
  const auto& groups = window.group_ends;
  if (!groups.empty() && groups.size() != rows) return false;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] <= i || groups[i] > rows) return false;
  }
  return std::all_of(window.bad.begin(), window.bad.end(),
                     [&](const model::BadRow& bad) { return bad.index < rows; });
}

bool fits(const model::MicrobatchCore& core) {
  const model::Boundaries& bounds = core.boundaries;
  if (core.hdp ? core.hdp_bin >= core.hdp->shares.size() : core.hdp_bin != 0) return false;
  return !bounds.cu_seqlens.empty() && bounds.cu_seqlens.size() == bounds.cu_seqlens_padded.size();
}

// Every field that the rank sees is there, and of the size that its shape says.
bool fits(const model::EncoderPart& part) {
  if (!part.group) return false;
  const auto in_group = [&](const model::PeerShare& share) {
    return share.peer < part.group->size();
  };
  const auto among = [](const std::vector<uint32_t>& order, size_t limit) {
    return std::all_of(order.begin(), order.end(), [&](uint32_t i) { return i < limit; });
  };
  return std::all_of(part.sends.begin(), part.sends.end(), in_group) &&
         std::all_of(part.receives_from.begin(), part.receives_from.end(), in_group) &&
         among(part.send_order, part.samples.size()) &&
         among(part.receive_order, part.received.size()) &&
         part.documents.size() == part.received.size();
}

// Data is there for those who see tokens or encode it, and for nobody else.
bool fits(const model::MediaSlabs& media, bool seen, size_t documents) {
  if (!media) return true;
  return std::all_of(media->begin(), media->end(), [&](const model::MediaSlab& slab) {
    return (slab.data.data == nullptr || seen) && media_fits(slab, documents);
  });
}

bool fits(const model::Microbatch& batch) {
  const bool seen = (batch.view.fields & model::kFieldTokens) != 0;
  if (!fits(batch.media, seen, batch.core->lineage.size())) return false;
  if (!fits(batch.encoded, true, batch.encoder ? batch.encoder->samples.size() : 0)) return false;
  if (batch.encoder && !fits(*batch.encoder)) return false;
  if (batch.view.slice >= batch.view.slices || batch.view.fields > model::kAllFields) return false;
  if (!batch.slab) return (batch.view.fields & model::kPayloadFields) == 0;
  const uint64_t elements = uint64_t{batch.slab->rows} * batch.slab->columns;
  for (const SlabField& field : kSlabFields) {
    if ((batch.view.fields & field.bit) == 0) continue;
    const model::FieldView& view = (*batch.slab).*field.view;
    const uint64_t width = element_bytes(*batch.core, field.bit);
    if (view.data == nullptr || view.size_bytes % width != 0) return false;
    if (view.size_bytes / width != elements) return false;
  }
  return true;
}

class MessageReader {
 public:
  MessageReader(ByteReader* bytes, std::string_view attachment, const DecodeContext& context)
      : bytes_(bytes), fields_(bytes), bulk_(context.regions, attachment), context_(context) {}

  template <typename T>
  Result<Message> read() {
    T message;
    OVERLORD_RETURN_IF_ERROR(read_into(message));
    OVERLORD_RETURN_IF_ERROR(fields_.status("message"));
    OVERLORD_RETURN_IF_ERROR(bulk_.finish("message"));
    return Message(std::move(message));
  }

 private:
  template <typename Plain>
  Status read_into(Plain& message) {
    fields_(message);
    return {};
  }

  Status read_into(MetaPosted& message) {
    fields_(message);
    if (!fields_.failed() && (!message.window || !fits(*message.window, context_.plans.sources))) {
      fields_.refuse();
    }
    return {};
  }

  Status read_into(PlanPublished& message) {
    OVERLORD_TRY(message.plan, read_plan());
    auto index = model::PlanIndex::make(*message.plan, context_.plans.sources);
    for (model::BucketIndex& bucket : index->buckets) {
      fields_(bucket.readers);
      const auto& readers = bucket.readers;
      const bool ascend = std::is_sorted(readers.begin(), readers.end()) &&
                          std::adjacent_find(readers.begin(), readers.end()) == readers.end();
      if (!ascend) fields_.refuse();
    }
    message.index = std::move(index);
    return {};
  }

  Status read_into(RowsPlanned& message) {
    fields_(message);
    if (!fields_.failed() && (!message.rows || !message.rows->fits())) fields_.refuse();
    return {};
  }

  Status read_into(CalloutAsked& message) {
    fields_(message);
    if (!fields_.failed() && (!message.request || !message.request->fits())) fields_.refuse();
    return {};
  }

  Status read_into(PayloadPtr& message) {
    auto payload = std::make_shared<Payload>();
    fields_(payload->step, payload->bucket, payload->source, payload->slot, payload->ordinals);
    if (payload->source >= context_.plans.sources) fields_.refuse();
    for (size_t i = 0; i < payload->ordinals.size() && !fields_.failed(); ++i) {
      payload->spans.push_back(read_span(&payload->holders));
    }
    read_pieces(&payload->media, &payload->holders);
    read_pieces(&payload->encoded, &payload->holders);
    for (const model::MediaPiece& piece : payload->media) {
      if (piece.packed && piece.data.data == nullptr) fields_.refuse();
    }
    for (const model::MediaPiece& piece : payload->encoded) {
      if (piece.data.data == nullptr) fields_.refuse();
    }
    message = std::move(payload);
    return {};
  }

  void read_pieces(std::vector<model::MediaPiece>* pieces,
                   std::vector<std::shared_ptr<const void>>* holders) {
    uint32_t count = 0;
    fields_(count);
    for (uint32_t i = 0; i < count && !fields_.failed(); ++i) {
      model::MediaPiece& piece = pieces->emplace_back();
      fields_(piece);
      piece.data = read_view(holders);
    }
  }

  model::FieldView read_view(std::vector<std::shared_ptr<const void>>* holders) {
    if (fields_.failed()) return {};
    BulkBytes bulk = bulk_.read(&fields_);
    if (bulk.holder && (holders->empty() || holders->back() != bulk.holder)) {
      holders->push_back(std::move(bulk.holder));
    }
    return {bulk.data, bulk.size_bytes};
  }

  model::MediaSlabs read_media() {
    uint32_t count = 0;
    fields_(count);
    if (count == 0) return nullptr;
    auto slabs = std::make_shared<std::vector<model::MediaSlab>>();
    for (uint32_t i = 0; i < count && !fields_.failed(); ++i) {
      model::MediaSlab& slab = slabs->emplace_back();
      fields_(slab);
      auto holders = std::make_shared<std::vector<std::shared_ptr<const void>>>();
      slab.data = read_view(holders.get());
      slab.holder = std::move(holders);
    }
    return slabs;
  }

  model::TokenSpan read_span(std::vector<std::shared_ptr<const void>>* holders) {
    model::TokenSpan span;
    fields_(span.count, span.element);
    if (fields_.failed()) return {};
    const BulkBytes data = bulk_.read(&fields_);
    const BulkBytes mask = bulk_.read(&fields_);
    const uint64_t size = uint64_t{span.count} * model::element_bytes(span.element);
    if (data.data != nullptr && data.size_bytes != size) fields_.refuse();
    if (mask.data != nullptr && mask.size_bytes != span.count) fields_.refuse();
    span.data = data.data;
    span.mask = static_cast<const uint8_t*>(mask.data);
    for (const BulkBytes* bulk : {&data, &mask}) {  // all of a message lie in a few places
      if (!bulk->holder) continue;
      if (std::find(holders->begin(), holders->end(), bulk->holder) == holders->end()) {
        holders->push_back(bulk->holder);
      }
    }
    return span;
  }

  Status read_into(StepReady& message) {
    fields_(message.step);
    OVERLORD_TRY(message.plan, read_plan_of(message.step));
    if (message.plan->step != message.step) fields_.refuse();
    uint32_t core_count = 0, slab_count = 0;
    fields_(core_count, slab_count);
    std::vector<std::shared_ptr<const model::MicrobatchCore>> cores;
    for (uint32_t i = 0; i < core_count && !fields_.failed(); ++i) {
      auto core = std::make_shared<model::MicrobatchCore>();
      fields_(*core);
      core->hdp = message.plan->layers.front().hdp;
      if (!fits(*core)) fields_.refuse();
      cores.push_back(std::move(core));
    }
    std::vector<std::shared_ptr<const model::Slab>> slabs;
    for (uint32_t i = 0; i < slab_count && !fields_.failed(); ++i) slabs.push_back(read_slab());
    if (!fields_.failed()) read_microbatches(cores, slabs, &message.microbatches);
    return {};
  }

  std::shared_ptr<const model::Slab> read_slab() {
    auto slab = std::make_shared<model::Slab>();
    fields_(slab->rows, slab->columns);
    auto holders = std::make_shared<std::vector<std::shared_ptr<const void>>>();
    for (const SlabField& field : kSlabFields) {
      BulkBytes bulk = bulk_.read(&fields_);
      (*slab).*field.view = {bulk.data, bulk.size_bytes};
      if (bulk.holder) holders->push_back(std::move(bulk.holder));
    }
    slab->holder = std::move(holders);
    return slab;
  }

  void read_microbatches(const std::vector<std::shared_ptr<const model::MicrobatchCore>>& cores,
                         const std::vector<std::shared_ptr<const model::Slab>>& slabs,
                         std::vector<model::MicrobatchPtr>* out) {
    uint32_t count = 0;
    fields_(count);
    uint32_t cores_seen = 0, slabs_seen = 0;
    std::vector<uint8_t> shown(slabs.size());
    for (uint32_t i = 0; i < count && !fields_.failed(); ++i) {
      uint32_t core = 0, slab = 0;
      auto batch = std::make_shared<model::Microbatch>();
      fields_(core, slab, batch->view, batch->digest, batch->encoder);
      batch->media = read_media();
      batch->encoded = read_media();
      // Numbers grow by one at most: the order of first mention.
      if (fields_.failed() || core > cores_seen || core >= cores.size() || slab > slabs_seen + 1 ||
          slab > slabs.size()) {
        return fields_.refuse();
      }
      cores_seen = std::max(cores_seen, core + 1);
      slabs_seen = std::max(slabs_seen, slab);
      batch->core = cores[core];
      if (slab > 0) batch->slab = slabs[slab - 1];
      if (slab > 0) shown[slab - 1] |= batch->view.fields;
      if (!fits(*batch)) return fields_.refuse();
      out->push_back(std::move(batch));
    }
    if (cores_seen != cores.size() || slabs_seen != slabs.size()) return fields_.refuse();
    for (size_t i = 0; i < slabs.size(); ++i) {  // nobody sees it: it does not travel
      for (const SlabField& field : kSlabFields) {
        const bool there = ((*slabs[i]).*field.view).data != nullptr;
        if (there && (shown[i] & field.bit) == 0) fields_.refuse();
      }
    }
  }

  Result<model::PlanPtr> read_plan() {
    const std::string_view plan = bytes_->text();
    OVERLORD_RETURN_IF_ERROR(fields_.status("message", /*whole=*/false));
    return decode_plan(plan, context_.plans);
  }

  // Where nothing stands in its place the plan was sent apart.
  Result<model::PlanPtr> read_plan_of(StepIndex step) {
    const ByteReader before = *bytes_;
    if (!bytes_->text().empty() || bytes_->failed() || !context_.plan_of) {
      *bytes_ = before;
      return read_plan();
    }
    model::PlanPtr plan = context_.plan_of(step);
    if (!plan) return bad_data("message: step " + std::to_string(step) + " without its plan");
    return plan;
  }

  ByteReader* bytes_;
  FieldReader fields_;
  BulkReader bulk_;
  const DecodeContext& context_;
};

// A message's kind is its place in the variant.
template <size_t kKind = 0>
Result<Message> read_message(uint64_t kind, MessageReader* reader) {
  if constexpr (kKind == std::variant_size_v<Message>) {
    return bad_data("message: unknown kind " + std::to_string(kind));
  } else {
    if (kind != kKind) return read_message<kKind + 1>(kind, reader);
    return reader->read<std::variant_alternative_t<kKind, Message>>();
  }
}

}  // namespace

std::string encode_message(const Message& message, const EncodeOptions& options) {
  MessageWriter writer(options);
  std::visit(writer, message);
  return writer.finish(message.index());
}

Result<Message> decode_message(std::string_view bytes, const DecodeContext& context) {
  ByteReader reader(bytes);
  const uint64_t kind = reader.varint();
  const std::string_view attachment = reader.text();
  OVERLORD_RETURN_IF_ERROR(reader.status("message", /*whole=*/false));
  MessageReader message(&reader, attachment, context);
  return read_message(kind, &message);
}

std::string encode_envelope(const EnvelopeHead& head, std::string_view message) {
  ByteWriter writer;
  writer.varint(kWireFormat);
  FieldWriter fields(&writer);
  fields(head);
  writer.raw(message.data(), message.size());
  return writer.take();
}

std::string encode_envelope(const Envelope& envelope, const EncodeOptions& options) {
  return encode_envelope({envelope.versions, envelope.from, envelope.to},
                         encode_message(envelope.message, options));
}

Result<EnvelopeHead> decode_head(std::string_view* bytes) {
  ByteReader reader(*bytes);
  const uint64_t format = reader.varint();
  if (format != kWireFormat && !reader.failed()) {
    return Status(Code::kVersionMismatch, "message: format " + std::to_string(format) +
                                              ", this build reads " + std::to_string(kWireFormat) +
                                              "; run the same version everywhere");
  }
  FieldReader fields(&reader);
  EnvelopeHead head;
  fields(head);
  OVERLORD_RETURN_IF_ERROR(fields.status("message", /*whole=*/false));
  bytes->remove_prefix(bytes->size() - reader.remaining());
  return head;
}

Result<Envelope> decode_envelope(std::string_view bytes, const DecodeContext& context) {
  OVERLORD_TRY(const EnvelopeHead head, decode_head(&bytes));
  OVERLORD_TRY(Message message, decode_message(bytes, context));
  return Envelope{head.versions, head.from, head.to, std::move(message)};
}

}  // namespace overlord::protocol
