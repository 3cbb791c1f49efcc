// Cuts sequences into 2N chunks and gives each member of a group two of them.
#include <algorithm>

#include "overlord/base/check.h"
#include "overlord/plan/hybrid/hdp.h"

namespace overlord::plan {
namespace {

// Where the chunks of a sequence begin, in units of `align`. When 2N does not divide, some chunks
// are one unit longer: first the last chunk (which the end of the sequence may cut short), then the
// low chunks of the other members, then what is left. So members differ by one unit at most too.
struct Cut {
  uint64_t units;
  uint64_t base;
  uint64_t extra;
  uint32_t members;

  Cut(uint32_t length, uint32_t members_in, uint32_t align)
      : units((uint64_t{length} + align - 1) / align),
        base(units / (2 * uint64_t{members_in})),
        extra(units % (2 * uint64_t{members_in})),
        members(members_in) {
    OVERLORD_CHECK(begin(2 * uint64_t{members}) == units, "chunks are the sequence");
  }

  // Chunks before `chunk` that are one unit longer.
  uint64_t longer_before(uint64_t chunk) const {
    const uint64_t n = members;
    const uint64_t low = std::min<uint64_t>(chunk, n);
    if (extra == 0) return 0;
    if (extra <= n) {  // the last one, and the low ones of members 1 .. extra - 1
      const uint64_t longer_low = low == 0 ? 0 : std::min(low - 1, extra - 1);
      return longer_low + (chunk == 2 * n ? 1 : 0);
    }
    // All low ones from 1 on, the last, low 0, then high ones of members 1 .. extra - n - 1.
    const uint64_t first_high = 2 * n - (extra - n);  // longer from here to the end
    return low + (chunk > first_high ? chunk - first_high : 0);
  }
  uint64_t begin(uint64_t chunk) const { return chunk * base + longer_before(chunk); }
};

HdpChunk chunk_of(const Cut& cut, uint64_t chunk, uint32_t length, uint32_t align) {
  const uint64_t first = std::min<uint64_t>(cut.begin(chunk) * align, length);
  const uint64_t end = std::min<uint64_t>(cut.begin(chunk + 1) * align, length);
  OVERLORD_CHECK(first <= end, "chunks follow each other");
  return {static_cast<uint32_t>(first), static_cast<uint32_t>(end - first)};
}

}  // namespace

HdpSlice slice_of(uint32_t length, uint32_t members, uint32_t member, uint32_t align) {
  OVERLORD_CHECK(members > 0 && member < members && align > 0, "a slice of no member");
  const Cut cut(length, members, align);
  return {chunk_of(cut, member, length, align),
          chunk_of(cut, 2 * uint64_t{members} - 1 - member, length, align)};
}

uint32_t largest_share(uint32_t length, uint32_t members, uint32_t align) {
  OVERLORD_CHECK(members > 0 && align > 0, "a share of no member");
  const uint64_t units = (uint64_t{length} + align - 1) / align;
  const uint64_t share = (units + members - 1) / members * align;
  return static_cast<uint32_t>(std::min<uint64_t>(share, length));
}

}  // namespace overlord::plan
