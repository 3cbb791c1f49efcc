// Mutants: seeded bugs of the simulated world. Each takes away what one promise rests on, so that
// its checker can be seen to notice (tests/simulation/mutants_test.cc). Test only.
#pragma once

#include <cstdint>

namespace overlord::sim {

enum class Mutant : uint8_t {
  kNone,
  kJournalFencesNobody,      // an earlier term goes on writing
  kRolesHeedEarlierTerms,    // whatever term speaks to them
  kNobodyPromises,           // a planner goes on, and nobody has heard that it has taken over
  kPromotedKeepsGeneration,  // a slot goes on elsewhere, and the dead may speak for it
  kDiskLies,                 // what is called durable is not written yet
  kStepTwice,                // a rank gets the step before once more
  kOtherBytes,               // a rank gets something else
  kOneEndsEarlier,           // of the constructors, when the stream fails
  kPlansTooFarAhead,         // constructors acknowledge what no rank has consumed
  kNobodySaysAgain,          // what a link has lost when it came back
};

}  // namespace overlord::sim
