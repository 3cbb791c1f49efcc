// What a journal on disk counts, readable from any thread.
#pragma once

#include <cstdint>

#include "overlord/base/counts.h"

namespace overlord::storage {

template <template <typename> typename Cell>
struct JournalCounts {
  Cell<uint64_t> lag_records{0};  // appended and not durable
  Cell<uint64_t> syncs{0};
  Cell<uint64_t> written_bytes{0};
  Cell<bool> waits_for_space{false};

  OVERLORD_FIELDS(lag_records, syncs, written_bytes, waits_for_space)
};

}  // namespace overlord::storage
