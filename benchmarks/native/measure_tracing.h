// What an event costs while a trace is drawn: for `overlord bench delivery --engine processes`,
// which knows how many there are to a step.
#pragma once

#include <cstdint>

namespace overlord::bench {

// CPU nanoseconds of one event as roles note it, clock and name included, when the book is full.
double measure_tracing(uint32_t events);

}  // namespace overlord::bench
