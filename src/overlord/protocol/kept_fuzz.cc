// Entry for a fuzzer: what is kept on disk or said between processes besides envelopes. The first
// byte chooses between resume states, states of streams, records of the journal and words of
// control; the others are taken, or refused with a reason.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/check.h"
#include "overlord/protocol/control.h"
#include "overlord/protocol/journal_record.h"
#include "overlord/protocol/made_up_messages_test.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::protocol {
namespace {

template <typename Value>
void has_a_reason(const Result<Value>& decoded) {
  OVERLORD_CHECK(decoded.ok() || !decoded.status().message().empty(), "a refusal without a reason");
}

void takes_kept(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = bytes.substr(1);
  switch (bytes.front() & 3) {
    case 0:
      return has_a_reason(decode_resume_state(rest));
    case 1:
      return has_a_reason(decode_stream_state(rest));
    case 2:
      return has_a_reason(decode_record(rest));
    default:
      return has_a_reason(decode_control(rest));
  }
}

std::vector<std::string> good_kept() {
  RandomFields random(7);
  const model::StreamState state = *random_state(random, 3);
  ResumeState resume;
  resume.state = state;
  const std::string stream = encode_stream_state(state);
  const SampleId id{1, 2, 3};
  Roster roster;
  roster.processes.resize(2);
  return {
      '\0' + encode_resume_state(resume),
      '\1' + stream,
      '\2' + encode_record(JournalStart{{}, {}, {}, stream}),
      '\2' + encode_record(PlanRecord{{}, 4, {}, {}, stream}),
      '\2' + encode_record(LateBadRecord{{}, 4, id, "cut"}),
      '\2' + encode_record(TreeRecord{{}, 5, {{"dp", 2}, {"tp", 4}}}),
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
