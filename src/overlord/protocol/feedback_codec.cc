#include "overlord/protocol/feedback_codec.h"

namespace overlord::protocol {
namespace {

void write_memory(ByteWriter* writer, const model::SourceMemory& memory) {
  writer->zigzag(memory.weight);
  writer->zigzag(memory.reward);
  writer->varint(memory.tokens);
  writer->zigzag(memory.since_loss);
  writer->varint(memory.since_tokens);
  writer->zigzag(memory.alpha >> model::kFitCoarseBits);
  writer->zigzag(memory.log_beta >> model::kFitCoarseBits);
  writer->zigzag(memory.history);
  writer->zigzag(memory.average);
  writer->varint(memory.points.size());
  int64_t before = 0;
  for (const model::LossPoint& point : memory.points) {
    writer->varint(static_cast<uint64_t>(point.log_tokens - before));
    writer->varint(static_cast<uint64_t>(point.loss));
    before = point.log_tokens;
  }
}

// Unsigned, since a number out of nowhere may not fit.
int64_t read_coarse(ByteReader* reader) {
  return static_cast<int64_t>(static_cast<uint64_t>(reader->zigzag()) << model::kFitCoarseBits);
}

model::SourceMemory read_memory(ByteReader* reader) {
  model::SourceMemory memory;
  memory.weight = reader->zigzag();
  memory.reward = reader->zigzag();
  memory.tokens = reader->varint();
  memory.since_loss = reader->zigzag();
  memory.since_tokens = reader->varint();
  memory.alpha = read_coarse(reader);
  memory.log_beta = read_coarse(reader);
  memory.history = reader->zigzag();
  memory.average = reader->zigzag();
  memory.points.resize(reader->count(2));
  uint64_t before = 0;
  for (model::LossPoint& point : memory.points) {
    point.log_tokens = static_cast<int64_t>(before += reader->varint());
    point.loss = static_cast<int64_t>(reader->varint());
  }
  return memory;
}

bool has_gaps(const model::StepFeedback& feedback) {
  const auto& losses = feedback.losses;
  return !losses.empty() && losses.back().source - losses.front().source + 1 != losses.size();
}

}  // namespace

void write_feedback(ByteWriter* writer, const model::StepFeedback& feedback) {
  writer->varint(feedback.step);
  writer->varint(feedback.losses.size());
  // Sources ascend. Most often none is left out: then the number of the first says it all.
  const bool gaps = has_gaps(feedback);
  writer->u8(gaps ? 1 : 0);
  SourceIndex next = 0;
  for (const model::SourceLoss& loss : feedback.losses) {
    if (gaps || loss.source == feedback.losses.front().source) writer->varint(loss.source - next);
    writer->zigzag(loss.loss);
    writer->varint(loss.tokens);
    next = loss.source + 1;
  }
  writer->varint(feedback.weights.size());
  for (const int64_t weight : feedback.weights) writer->zigzag(weight);
}

model::StepFeedback read_feedback(ByteReader* reader) {
  model::StepFeedback feedback;
  feedback.step = reader->varint();
  feedback.losses.resize(reader->count(2));
  const bool gaps = reader->u8() != 0;
  SourceIndex next = 0;
  for (model::SourceLoss& loss : feedback.losses) {
    const bool told = gaps || &loss == &feedback.losses.front();
    loss.source = next + (told ? static_cast<SourceIndex>(reader->varint()) : 0);
    loss.loss = reader->zigzag();
    loss.tokens = reader->varint();
    next = loss.source + 1;
  }
  feedback.weights.resize(reader->count(1));
  for (int64_t& weight : feedback.weights) weight = reader->zigzag();
  return feedback;
}

void write_controller(ByteWriter* writer, const model::ControllerState& controller) {
  writer->u8(static_cast<uint8_t>(controller.kind));
  writer->varint(controller.delay);
  writer->varint(controller.since);
  writer->varint(controller.updates);
  writer->varint(controller.averaged);
  writer->varint(controller.sources.size());
  for (const model::SourceMemory& memory : controller.sources) write_memory(writer, memory);
}

model::ControllerState read_controller(ByteReader* reader) {
  model::ControllerState controller;
  controller.kind = static_cast<model::ControllerKind>(reader->u8());
  controller.delay = static_cast<uint32_t>(reader->varint());
  controller.since = reader->varint();
  controller.updates = reader->varint();
  controller.averaged = reader->varint();
  controller.sources.resize(reader->count(10));
  for (model::SourceMemory& memory : controller.sources) memory = read_memory(reader);
  return controller;
}

}  // namespace overlord::protocol
