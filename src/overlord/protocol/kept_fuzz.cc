// Entry for a fuzzer: what is kept on disk or said between processes besides envelopes. The first
// byte chooses between resume states, states of streams, records of the journal, alone or in a
// chain, differences of states and words of control; the others are taken, or refused with a
// reason.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/base/check.h"
#include "overlord/protocol/control.h"
#include "overlord/protocol/journal/record_chain.h"
#include "overlord/protocol/made_up_messages_test.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::protocol {
namespace {

template <typename Value>
void has_a_reason(const Result<Value>& decoded) {
  OVERLORD_CHECK(decoded.ok() || !decoded.status().message().empty(), "a refusal without a reason");
}

constexpr size_t kMostAfter = 1 << 20;

std::string some_state(uint64_t seed) {
  RandomFields random(seed);
  return encode_stream_state(*random_state(random, 3));
}

JournalStart some_start() {
  JournalStart start;
  start.state = some_state(7);
  return start;
}

// Behind its checksum, which would hide the rest from a blind search.
Result<std::string> take_frame(std::string_view frame) {
  const std::string before = some_state(7);
  ByteWriter writer;
  writer.u64(hash64(frame.data(), frame.size(), hash64(before.data(), before.size())));
  writer.raw(frame.data(), frame.size());
  auto after = StateDifferences().apply_difference({before}, writer.bytes(), kMostAfter);
  OVERLORD_CHECK(!after.ok() || after->size() <= kMostAfter, "a state beyond its limit");
  return after;
}

Result<JournalRecord> take_in_chain(std::string_view bytes) {
  JournalReader reader;
  OVERLORD_CHECK(reader.read(encode_record(some_start())).ok(), "a start is taken");
  return reader.read(bytes);
}

void takes_kept(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = bytes.substr(1);
  switch (bytes.front() & 7) {
    case 0:
      return has_a_reason(decode_resume_state(rest));
    case 1:
      return has_a_reason(decode_stream_state(rest));
    case 2:
      return has_a_reason(decode_record(rest));
    case 4:
      return has_a_reason(take_in_chain(rest));
    case 5:
      return has_a_reason(take_frame(rest));
    default:
      return has_a_reason(decode_control(rest));
  }
}

std::vector<std::string> good_kept() {
  RandomFields random(7);
  const model::StreamState state = *random_state(random, 3);
  ResumeState resume;
  resume.state = state;
  const std::string stream = some_state(7);
  const SampleId id{1, 2, 3};
  Roster roster;
  roster.processes.resize(2);
  JournalWriter chain;
  chain.write(some_start());
  return {
      '\0' + encode_resume_state(resume),
      '\1' + stream,
      '\2' + encode_record(some_start()),
      '\2' + encode_record(PlanRecord{{}, 4, 0, {}, {}, stream}),
      '\2' + encode_record(LateBadRecord{{}, 4, id, "cut"}),
      '\2' + encode_record(TreeRecord{{}, 5, {{"dp", 2}, {"tp", 4}}}),
      '\2' + encode_record(FailureRecord{{}, 5, {Code::kBadData, "no"}}),
      '\2' + encode_record(RetiredRecord{{}, constructor_address(2)}),
      '\2' + encode_record(OwnersRecord{{}, {1, {{0, 2}, {40, 16}}}, 0, "busy"}),
      '\4' + chain.write(PlanRecord{{}, 4, 0, {}, {}, some_state(8)}),
      '\5' + StateDifferences().difference({some_state(7)}, some_state(9)).substr(8),
      '\3' + encode_control(RowNoted{id, 9, "cut", true}),
      '\3' + encode_control(roster),
      '\3' + encode_control(Refused{{Code::kBadData, "no"}}),
      '\3' + encode_control(Detach{}),
  };
}

}  // namespace
}  // namespace overlord::protocol

std::vector<std::string> fuzz_seeds() { return overlord::protocol::good_kept(); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  overlord::protocol::takes_kept({reinterpret_cast<const char*>(data), size});
  return 0;
}
