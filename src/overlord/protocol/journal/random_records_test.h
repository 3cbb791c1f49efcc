// Random records of a journal and steps of stream states, for the tests of this folder.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "overlord/protocol/fields/random_fields_test.h"
#include "overlord/protocol/journal/record_fields.h"
#include "overlord/protocol/made_up_messages_test.h"

namespace overlord::protocol {

inline constexpr size_t kRecordKinds = std::variant_size_v<JournalRecord>;

// Of the place of its kind in JournalRecord. States are texts that mean nothing.
template <size_t kKind = 0>
JournalRecord random_record(RandomFields& random, size_t kind) {
  if constexpr (kKind < kRecordKinds) {
    if (kind != kKind) return random_record<kKind + 1>(random, kind);
    auto record = random.make<std::variant_alternative_t<kKind, JournalRecord>>();
    if constexpr (requires { record.feedback; }) {
      record.feedback = {random.number(), {{0, -5, 7}, {3, 1 << 30, 9}}, {4, -5}};
    }
    return record;
  } else {
    OVERLORD_CHECK(false, "a kind of journal records");
  }
}

inline void flip(std::string* bytes, size_t bit) {
  char& byte = (*bytes)[bit / 8];
  byte = static_cast<char>(byte ^ (1 << (bit % 8)));
}

// What a step may make of a state: some cursors move on.
inline void move_cursors(RandomFields& random, uint32_t moving, model::StreamState* state) {
  ++state->next_step;
  for (uint32_t i = 0; i < moving; ++i) {
    model::SourceCursor& cursor = state->cursors[random.below(state->cursors.size())];
    const uint64_t documents = 1 + random.below(40);
    cursor.position += documents;
    cursor.samples += documents;
    cursor.tokens += documents * 500 + random.below(10'000);
    cursor.debt = static_cast<int64_t>(random.below(uint64_t{1} << 31)) - (int64_t{1} << 30);
  }
}

}  // namespace overlord::protocol
