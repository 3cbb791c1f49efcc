// LoaderProbe: what one loader slot costs, readable from any thread. Kept beside the index when the
// engine stops; the automatic partitioner will read it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "overlord/base/check.h"
#include "overlord/base/counts.h"
#include "overlord/runtime/held_bytes.h"

namespace overlord::loader {

// Where a loader's oldest work stands, for the message of whoever waits for it.
enum class LoadStage : uint8_t { kIdle, kRead, kDecode, kTokenise };

template <template <typename> typename Cell>
struct LoaderCounts {
  Cell<uint64_t> in_work{0};  // fetches and windows being made now
  Cell<uint64_t> rows_posted{0};
  Cell<uint64_t> documents{0};   // served
  Cell<uint64_t> tokens{0};      // of these
  Cell<uint64_t> read_bytes{0};  // transfer from storage
  Cell<uint64_t> read_wait_ns{0};
  Cell<uint64_t> file_state_bytes{0};  // order tables and expanded windows
  Cell<uint64_t> bad_rows{0};
  Cell<uint64_t> empty_rows{0};  // skipped, where the source does so
  Cell<uint64_t> blocks_read{0};
  Cell<uint64_t> cache_hits{0};
  // CPU time by stage: blocks of rows, tokens (as their encoder tells, with users' Python), media.
  Cell<uint64_t> decode_ns{0};
  Cell<uint64_t> tokenise_ns{0};
  Cell<uint64_t> media_ns{0};
  // Handed to constructors: tokens, masks, media; and how long that took: to write them for another
  // process, or to find out that it shares their memory.
  Cell<uint64_t> sent_bytes{0}, send_ns{0};
  // What goes into the stages and comes out of them.
  Cell<uint64_t> decode_in_bytes{0}, decode_out_bytes{0};
  Cell<uint64_t> tokenise_in_bytes{0}, tokenise_out_bytes{0};
  Cell<uint64_t> media_in_bytes{0}, media_out_bytes{0};
  Cell<uint64_t> media_blobs{0};

  OVERLORD_FIELDS(in_work, rows_posted, documents, tokens, read_bytes, read_wait_ns,
                  file_state_bytes, bad_rows, empty_rows, blocks_read, cache_hits, decode_ns,
                  tokenise_ns, media_ns, sent_bytes, send_ns, decode_in_bytes, decode_out_bytes,
                  tokenise_in_bytes, tokenise_out_bytes, media_in_bytes, media_out_bytes,
                  media_blobs)
};

struct LoaderProbe : LoaderCounts<std::atomic> {
  const runtime::HeldBytesPtr reading = std::make_shared<runtime::HeldBytes>();  // not decoded yet
  runtime::HeldBytes buffer;  // decoded blocks that are kept
  // Handed to constructors, and not let go of by them.
  const runtime::HeldBytesPtr in_flight = std::make_shared<runtime::HeldBytes>();
  // Being read, decoded or tokenised now.
  const std::shared_ptr<std::atomic<uint64_t>> blocks_in_work =
      std::make_shared<std::atomic<uint64_t>>(0);
  std::atomic<bool> reads{true};     // false: its source has fewer slots now, and it waits for work
  std::atomic<bool> standby{false};  // a shadow: what it holds is for the day it is promoted
  std::atomic<uint32_t> current_block{0};
  std::atomic<LoadStage> stage{LoadStage::kIdle};

  uint64_t transform_ns() const { return decode_ns + tokenise_ns + media_ns; }
};

// Counts a block in for as long as it lives, which may be longer than its loader does.
class BlockInWork {
 public:
  explicit BlockInWork(LoaderProbe* probe) : count_(probe->blocks_in_work) {
    ++probe->blocks_read;
    ++*count_;
  }
  ~BlockInWork() { OVERLORD_CHECK((*count_)-- > 0, "a block that is done was in work"); }
  BlockInWork(const BlockInWork&) = delete;
  BlockInWork& operator=(const BlockInWork&) = delete;

 private:
  const std::shared_ptr<std::atomic<uint64_t>> count_;
};

}  // namespace overlord::loader
