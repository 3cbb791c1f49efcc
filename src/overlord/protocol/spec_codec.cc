#include "overlord/protocol/spec_codec.h"

#include "overlord/base/bytes.h"

namespace overlord::protocol {
namespace {

constexpr uint32_t kSpecFormat = 1;

void write_optional(ByteWriter* writer, const std::optional<uint32_t>& value) {
  writer->u8(value.has_value() ? 1 : 0);
  writer->u32(value.value_or(0));
}

Digest stream_digest(const model::JobSpec& spec) {
  ByteWriter writer;
  writer.u32(kSpecFormat);
  writer.text(spec.stream);
  writer.u64(spec.seed);
  writer.u32(spec.context);
  writer.u32(spec.bins);
  writer.u32(spec.substeps);
  writer.u32(spec.align);
  writer.u32(spec.pad_token);
  writer.u8(static_cast<uint8_t>(spec.leftover));
  writer.u8(static_cast<uint8_t>(spec.packing.method));
  writer.u32(spec.packing.slack_permille);
  writer.u32(spec.packing.max_delay_steps);
  if (spec.window.steps > 1) {
    writer.u32(spec.window.steps);
    writer.u32(spec.window.max_delay);
    writer.u32(spec.window.width);
    model::write_cost_model(spec.window.cost, &writer);
  }
  if (spec.batch_transform.declared()) {
    writer.text("batch_transform");
    writer.text(spec.batch_transform.function);
    writer.text(spec.batch_transform.version);
  }
  return digest_of(writer.bytes());
}

void write_controller_spec(ByteWriter* writer, const model::ControllerSpec& controller) {
  writer->u8(static_cast<uint8_t>(controller.kind));
  writer->u32(controller.delay);
  switch (controller.kind) {
    case model::ControllerKind::kNone:
      break;
    case model::ControllerKind::kOdm:
      writer->zigzag(controller.smoothing);
      break;
    case model::ControllerKind::kAdo:
      writer->zigzag(controller.history_rate);
      writer->zigzag(controller.follow_rate);
      writer->zigzag(controller.history_exponent);
      writer->zigzag(controller.floor);
      writer->u32(controller.fit_every);
      writer->u32(controller.fit_after);
      break;
    case model::ControllerKind::kRule:
      writer->u32(controller.rule_version);
      break;
  }
}

// What only some mixtures have is written only there: a mixture without keeps its digest.
void write_mixture_extras(ByteWriter* writer, const model::JobSpec& spec) {
  const model::Mixture& mixture = spec.mixture;
  for (const model::MixtureStage& stage : mixture.stages) {
    if (stage.ramp == model::Ramp::kNone) continue;
    writer->text("ramp");
    writer->u64(stage.first_step);
    writer->u8(static_cast<uint8_t>(stage.ramp));
    writer->u64(stage.ramp_steps);
  }
  if (mixture.grain != model::Grain::kStep) {
    writer->text("grain");
    writer->u8(static_cast<uint8_t>(mixture.grain));
  }
  if (mixture.grain == model::Grain::kEpoch) {
    writer->u64(mixture.epoch_steps);
    writer->text(mixture.epoch_steps > 0 ? "" : spec.sources[mixture.epoch_source].name);
  }
  for (size_t s = 0; s < mixture.max_passes.size(); ++s) {
    if (mixture.max_passes[s] == 0) continue;
    writer->text("max_passes");
    writer->text(spec.sources[s].name);
    writer->u32(mixture.max_passes[s]);
  }
  if (!mixture.metric_driven()) return;
  writer->text("controller");
  write_controller_spec(writer, mixture.controller);
}

// A strategy without keeps its digest.
void write_callout(ByteWriter* writer, std::string_view what,
                   const model::CalloutFunction& function) {
  if (!function.declared()) return;
  writer->text(what);
  writer->text(function.name);
  writer->text(function.version);
  writer->zigzag(function.scale);
}

// A field that does not travel keeps its digest, and so does one that needs none of the later
// words.
void write_media_use(ByteWriter* writer, const model::MediaField& field) {
  if (!field.use) return;
  writer->text("use");
  writer->text(field.use->transform);
  writer->text(field.use->decoder);
  write_optional(writer, field.use->pad);
  write_optional(writer, field.use->before);
  write_optional(writer, field.use->after);
  writer->u32(field.use->pads);
  if (field.use->kind != model::MediaKind::kImage) {
    writer->text("kind");
    writer->u8(static_cast<uint8_t>(field.use->kind));
  }
  if (field.use->units_per_pad > 0) {
    writer->text("units per pad");
    writer->u32(field.use->units_per_pad);
  }
  if (field.use->in_text) writer->text("in text");
  if (field.use->function.declared()) {
    writer->text("function");
    writer->text(field.use->function.function);
    writer->text(field.use->function.version);
  }
}

Digest source_digest(const model::Source& source) {
  ByteWriter writer;
  writer.text(source.name);
  writer.u8(static_cast<uint8_t>(source.format));
  writer.text(source.text_column);
  writer.text(source.token_column);
  writer.text(source.mask_column);
  writer.u8(static_cast<uint8_t>(source.tokenizer.kind));
  writer.text(source.tokenizer.digest);
  writer.u8(source.tokenizer.add_special_tokens ? 1 : 0);
  write_optional(&writer, source.bos);
  write_optional(&writer, source.eod);
  writer.u32(source.vocabulary);
  writer.u8(static_cast<uint8_t>(source.shuffle));
  writer.u32(source.window_rows);
  writer.u64(source.window_bytes);
  writer.u8(static_cast<uint8_t>(source.at_end));
  writer.u8(static_cast<uint8_t>(source.over_length));
  writer.u64(source.limits.max_document_bytes);
  writer.u64(source.limits.max_block_bytes);
  writer.u32(source.limits.max_expansion);
  // What only some sources have is written only there: a source without keeps its digest.
  if (!source.metadata_columns.empty()) {
    writer.text("metadata");
    writer.varint(source.metadata_columns.size());
    for (const std::string& column : source.metadata_columns) writer.text(column);
  }
  if (source.filter) {
    writer.text("filter");
    writer.text(source.filter->column);
    writer.u32(source.filter->least);
    writer.u32(source.filter->most);
  }
  if (!source.media.empty()) {
    writer.text("media");
    writer.u64(source.limits.max_media_bytes);
    writer.varint(source.media.size());
    for (const model::MediaField& field : source.media) {
      writer.text(field.name);
      writer.varint(field.from.size());
      for (const std::string& name : field.from) writer.text(name);
      if (field.many) writer.text("many");
      write_media_use(&writer, field);
    }
  }
  if (source.transform.declared()) {
    writer.text("transform");
    writer.text(source.transform.function);
    writer.text(source.transform.version);
  }
  if (source.schema.declared()) {
    writer.text("schema");
    writer.u8(static_cast<uint8_t>(source.schema.text));
    writer.varint(source.schema.columns.size());
    for (const std::string& column : source.schema.columns) writer.text(column);
    writer.text(source.schema.marker);
    writer.text(source.schema.separator);
  }
  if (source.empty == model::EmptyRows::kSkip) writer.text("skip empty");
  return digest_of(writer.bytes());
}

void write_hdp_spec(ByteWriter* writer, const model::HdpSpec& hdp) {
  const model::HdpModel& model = hdp.model;
  for (const int64_t value :
       {model.square_fs, model.token_fs, model.fixed_fs, int64_t{model.forward_permille},
        model.activation_token_bytes, model.activation_fixed_bytes, int64_t{model.layers},
        int64_t{model.capacity}, model.to_host_per_s, model.from_host_per_s, model.host_bytes,
        model.ring_token_bytes, model.ring_per_s, model.ring_hop_ns}) {
    writer->zigzag(value);
  }
  writer->u8(static_cast<uint8_t>(hdp.method));
  writer->u8(hdp.balance ? 1 + static_cast<uint8_t>(*hdp.balance) : 0);
  writer->u8(hdp.offload ? 1 : 0);
  writer->u8(hdp.powers_of_two ? 1 : 0);
  writer->u32(hdp.max_microbatches);
}

// Nothing is written for a strategy of one module: digests of those stay as they were.
void write_modules(const model::Strategy& strategy, ByteWriter* writer) {
  if (!strategy.further_costs.empty()) {
    writer->text("further_costs");
    writer->u32(static_cast<uint32_t>(strategy.further_costs.size()));
    for (const model::CostModel& cost : strategy.further_costs) {
      model::write_cost_model(cost, writer);
    }
  }
  if (!strategy.encoder) return;
  const model::EncoderStrategy& encoder = *strategy.encoder;
  writer->text("encoder");
  writer->text(encoder.module);
  writer->text(encoder.axis);
  writer->u32(encoder.group_size);
  writer->text(encoder.column);
  model::write_cost_model(encoder.cost, writer);
  writer->u8(static_cast<uint8_t>(encoder.balance));
  writer->u8(encoder.parity ? 1 : 0);
  writer->u32(encoder.bytes_per_unit);
}

}  // namespace

Digest strategy_digest(const model::Strategy& strategy) {
  ByteWriter writer;
  writer.text(strategy.axis);
  writer.u32(strategy.group_size);
  writer.u8(strategy.has_cost ? 1 : 0);
  if (strategy.has_cost && !strategy.cost_by.declared())
    model::write_cost_model(strategy.cost, &writer);
  writer.u8(static_cast<uint8_t>(strategy.balance));
  writer.u8(static_cast<uint8_t>(strategy.level));
  writer.u8(static_cast<uint8_t>(strategy.atoms));
  writer.u32(strategy.microbatch_tokens);
  writer.u8(static_cast<uint8_t>(strategy.order));
  writer.u32(strategy.virtual_stages);
  writer.u32(strategy.backward_permille);
  if (strategy.atoms == model::Atoms::kSlices) write_hdp_spec(&writer, strategy.hdp);
  write_modules(strategy, &writer);
  if (strategy.memory_limit > 0) {  // written only where there is one: others keep their digest
    writer.text("memory_limit");
    writer.u64(static_cast<uint64_t>(strategy.memory_limit));
  }
  write_callout(&writer, "cost_by", strategy.cost_by);
  write_callout(&writer, "balance_by", strategy.balance_by);
  write_callout(&writer, "plan_by", strategy.plan_by);
  return digest_of(writer.bytes());
}

Digest mixture_digest(const model::JobSpec& spec) {
  ByteWriter writer;
  writer.u8(static_cast<uint8_t>(spec.mixture.unit));
  writer.u8(static_cast<uint8_t>(spec.mixture.quota));
  for (const model::MixtureStage& stage : spec.mixture.stages) {
    writer.u64(stage.first_step);
    for (size_t s = 0; s < stage.weights.size(); ++s) {
      writer.text(spec.sources[s % spec.sources.size()].name);
      writer.zigzag(stage.weights[s]);
    }
  }
  write_mixture_extras(&writer, spec);
  return digest_of(writer.bytes());
}

std::vector<SectionDigest> section_digests(const model::JobSpec& spec) {
  std::vector<SectionDigest> sections;
  sections.push_back({"stream", stream_digest(spec)});
  sections.push_back({"mixture", mixture_digest(spec)});
  for (const model::Source& source : spec.sources) {
    sections.push_back({"source:" + source.name, source_digest(source)});
  }
  return sections;
}

Digest config_digest(const model::JobSpec& spec) {
  Digest digest;
  for (const SectionDigest& section : section_digests(spec)) {
    digest = chain(digest, digest_of(section.name));
    digest = chain(digest, section.digest);
  }
  if (spec.strategy.is_declared()) digest = chain(digest, strategy_digest(spec.strategy));
  return digest;
}

}  // namespace overlord::protocol
