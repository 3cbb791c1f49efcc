// How a microbatch travels to a worker of a batch transform and back: one frame of bytes, little
// endian, arrays whole and one behind the other.
//   question  u64 key  u64 step  u32 microbatch  u32 group, then as an answer
//   answer    u32 arrays, of each: u32 length, name  u8 element  u8 sides  u64 side[sides]
//             and behind all of them their values, each that has any at the next
//             multiple of 64 bytes
// Pure functions over bytes of another process: nothing in them is believed before it is checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/runtime/batch_transform.h"

namespace overlord::workers {

std::string encode_batch_question(const runtime::BatchQuestion& question);

// The arrays show into `frame`. kBadData: truncated, or senseless.
Result<std::vector<runtime::BatchArray>> parse_batch_answer(std::string_view frame);

}  // namespace overlord::workers
