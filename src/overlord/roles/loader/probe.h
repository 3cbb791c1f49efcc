// LoaderProbe: what one loader slot costs, readable from any thread. Kept beside the index when the
// engine stops; the automatic partitioner will read it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "overlord/runtime/held_bytes.h"

namespace overlord::loader {

// Where a loader's oldest work stands, for the message of whoever waits for it.
enum class LoadStage : uint8_t { kIdle, kRead, kDecode, kTokenise };
const char* stage_name(LoadStage stage);

struct LoaderProbe {
  std::atomic<uint64_t> windows_posted{0};
  std::atomic<uint64_t> rows_posted{0};
  std::atomic<uint64_t> fetches{0};
  std::atomic<uint64_t> documents{0};  // served
  std::atomic<uint64_t> blocks_read{0};
  std::atomic<uint64_t> cache_hits{0};
  std::atomic<uint64_t> read_bytes{0};  // transfer from storage
  std::atomic<uint64_t> read_wait_ns{0};
  // CPU time by stage: blocks of rows, tokens (as their encoder tells, with users' Python), media.
  std::atomic<uint64_t> decode_ns{0};
  std::atomic<uint64_t> tokenise_ns{0};
  std::atomic<uint64_t> media_ns{0};
  // What goes into these stages and comes out of them.
  std::atomic<uint64_t> decode_in_bytes{0}, decode_out_bytes{0};
  std::atomic<uint64_t> tokenise_in_bytes{0}, tokenise_out_bytes{0};
  std::atomic<uint64_t> media_in_bytes{0}, media_out_bytes{0};
  std::atomic<uint64_t> media_blobs{0};
  std::atomic<uint64_t> sent_bytes{0};  // handed to constructors: tokens, masks, media
  const runtime::HeldBytesPtr reading = std::make_shared<runtime::HeldBytes>();  // not decoded yet
  runtime::HeldBytes buffer;                  // decoded blocks that are kept
  std::atomic<uint64_t> file_state_bytes{0};  // order tables and expanded windows
  // Handed to constructors, and not let go of by them.
  const runtime::HeldBytesPtr in_flight = std::make_shared<runtime::HeldBytes>();
  std::atomic<uint64_t> bad_rows{0};
  std::atomic<uint64_t> empty_rows{0};  // skipped, where the source does so
  std::atomic<uint32_t> current_block{0};
  std::atomic<LoadStage> stage{LoadStage::kIdle};
  std::atomic<uint64_t> in_work{0};  // fetches and windows being made now

  uint64_t transform_ns() const { return decode_ns + tokenise_ns + media_ns; }
};

}  // namespace overlord::loader
