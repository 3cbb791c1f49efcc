#include "overlord/protocol/spec_codec.h"

#include "overlord/protocol/digest_writer.h"

namespace overlord::protocol {
namespace {

constexpr uint32_t kSpecFormat = 1;

// Fields of each struct that are written here one by one, or left out on purpose; what is added to
// its list comes after them and is in the digest by itself (DigestWriter::later_fields).
constexpr size_t kJobFields = 17, kMixtureFields = 9, kControllerFields = 10;
constexpr size_t kSourceFields = 34, kLimitFields = 4, kUseFields = 10, kStrategyFields = 19;

// What only some declare is written only there, here and below: whoever does not keeps his digest.
Digest stream_digest(const model::JobSpec& spec) {
  DigestWriter writer;
  writer(kSpecFormat, spec.stream, spec.seed, spec.context, spec.bins, spec.substeps, spec.align,
         spec.pad_token, spec.leftover, spec.packing);
  if (spec.window.steps > 1) writer(spec.window);
  if (spec.batch_transform.declared()) {
    writer("batch_transform", spec.batch_transform.function, spec.batch_transform.version);
  }
  writer.later_fields(spec, kJobFields);
  return writer.digest();
}

void write_controller_spec(DigestWriter& writer, const model::ControllerSpec& controller) {
  writer(controller.kind, controller.delay);
  switch (controller.kind) {
    case model::ControllerKind::kNone:
      break;
    case model::ControllerKind::kOdm:
      writer(controller.smoothing);
      break;
    case model::ControllerKind::kAdo:
      writer(controller.history_rate, controller.follow_rate, controller.history_exponent,
             controller.floor, controller.fit_every, controller.fit_after);
      break;
    case model::ControllerKind::kRule:
      writer(controller.rule_version);
      break;
  }
  writer.later_fields(controller, kControllerFields);
}

void write_mixture_extras(DigestWriter& writer, const model::JobSpec& spec) {
  const model::Mixture& mixture = spec.mixture;
  for (const model::MixtureStage& stage : mixture.stages) {
    if (stage.ramp == model::Ramp::kNone) continue;
    writer("ramp", stage.first_step, stage.ramp, stage.ramp_steps);
  }
  if (mixture.grain != model::Grain::kStep) writer("grain", mixture.grain);
  if (mixture.grain == model::Grain::kEpoch) {
    writer(mixture.epoch_steps,
           mixture.epoch_steps > 0 ? std::string() : spec.sources[mixture.epoch_source].name);
  }
  for (size_t s = 0; s < mixture.max_passes.size(); ++s) {
    if (mixture.max_passes[s] == 0) continue;
    writer("max_passes", spec.sources[s].name, mixture.max_passes[s]);
  }
  if (mixture.metric_driven()) {
    writer("controller");
    write_controller_spec(writer, mixture.controller);
  }
  writer.later_fields(mixture, kMixtureFields);
}

void write_media_field(DigestWriter& writer, const model::MediaField& field) {
  writer(field.name, field.from);
  if (field.many) writer("many");
  if (field.has_part()) writer("part", field.start, field.end);
  if (!field.use) return;
  const model::MediaUse& use = *field.use;
  writer("use", use.transform, use.decoder, use.pad, use.before, use.after, use.pads);
  if (use.kind != model::MediaKind::kImage) writer("kind", use.kind);
  if (use.units_per_pad > 0) writer("units per pad", use.units_per_pad);
  if (use.in_text) writer("in text");
  if (use.function.declared()) writer("function", use.function.function, use.function.version);
  writer.later_fields(use, kUseFields);
}

Digest source_digest(const model::Source& source) {
  DigestWriter writer;
  writer(source.name, source.format, source.text_column, source.token_column, source.mask_column);
  writer(source.tokenizer.kind, source.tokenizer.digest, source.tokenizer.add_special_tokens);
  writer(source.bos, source.eod, source.vocabulary, source.shuffle, source.window_rows,
         source.window_bytes, source.at_end, source.over_length);
  writer(source.limits.max_document_bytes, source.limits.max_block_bytes,
         source.limits.max_expansion);
  if (!source.metadata_columns.empty()) writer("metadata", source.metadata_columns);
  if (source.filter) writer("filter", *source.filter);
  if (!source.media.empty()) {
    writer("media", source.limits.max_media_bytes);
    writer.count(source.media.size());
    for (const model::MediaField& field : source.media) write_media_field(writer, field);
  }
  if (source.transform.declared()) {
    writer("transform", source.transform.function, source.transform.version);
  }
  if (source.schema.declared()) {
    writer("schema", source.schema.text, source.schema.columns, source.schema.marker,
           source.schema.separator);
    if (source.schema.branches > 1) writer("branches", source.schema.branches);
  }
  if (source.empty == model::EmptyRows::kSkip) writer("skip empty");
  writer.later_fields(source.limits, kLimitFields);
  writer.later_fields(source, kSourceFields);
  return writer.digest();
}

void write_hdp_spec(DigestWriter& writer, const model::HdpSpec& hdp) {
  for_each_field(hdp.model, [&](std::string_view, const auto& value) { writer(int64_t{value}); });
  writer(hdp.method, static_cast<uint8_t>(hdp.balance ? 1 + static_cast<int>(*hdp.balance) : 0),
         hdp.offload, hdp.powers_of_two, hdp.max_microbatches);
}

void write_modules(DigestWriter& writer, const model::Strategy& strategy) {
  if (!strategy.further_costs.empty()) {
    writer("further_costs", static_cast<uint32_t>(strategy.further_costs.size()));
    for (const model::CostModel& cost : strategy.further_costs) writer(cost);
  }
  if (strategy.encoder) writer("encoder", *strategy.encoder);
}

}  // namespace

Digest strategy_digest(const model::Strategy& strategy) {
  DigestWriter writer;
  writer(strategy.axis, strategy.group_size, strategy.has_cost);
  if (strategy.has_cost && !strategy.cost_by.declared()) writer(strategy.cost);
  writer(strategy.balance, strategy.level, strategy.atoms, strategy.microbatch_tokens,
         strategy.order, strategy.virtual_stages, strategy.backward_permille);
  if (strategy.atoms == model::Atoms::kSlices) write_hdp_spec(writer, strategy.hdp);
  write_modules(writer, strategy);
  if (strategy.memory_limit > 0) {
    writer("memory_limit", static_cast<uint64_t>(strategy.memory_limit));
  }
  if (strategy.cost_by.declared()) writer("cost_by", strategy.cost_by);
  if (strategy.balance_by.declared()) writer("balance_by", strategy.balance_by);
  if (strategy.plan_by.declared()) writer("plan_by", strategy.plan_by);
  writer.later_fields(strategy, kStrategyFields);
  return writer.digest();
}

Digest mixture_digest(const model::JobSpec& spec) {
  DigestWriter writer;
  writer(spec.mixture.unit, spec.mixture.quota);
  for (const model::MixtureStage& stage : spec.mixture.stages) {
    writer(stage.first_step);
    for (size_t s = 0; s < stage.weights.size(); ++s) {
      writer(spec.sources[s % spec.sources.size()].name, stage.weights[s]);
    }
  }
  write_mixture_extras(writer, spec);
  return writer.digest();
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
