// Bytes of feedback and of a controller's memory: parts of journal records and of the stream state.
#pragma once

#include "overlord/base/bytes.h"
#include "overlord/model/mixture.h"

namespace overlord::protocol {

void write_feedback(ByteWriter* writer, const model::StepFeedback& feedback);
model::StepFeedback read_feedback(ByteReader* reader);

void write_controller(ByteWriter* writer, const model::ControllerState& controller);
model::ControllerState read_controller(ByteReader* reader);

}  // namespace overlord::protocol
