// LivingProcess: a process that outlives who started it, so that others can find it again and take
// no other for it that got its number later.
#pragma once

#include <cstdint>
#include <string>

#include "overlord/base/fields.h"
#include "overlord/base/status.h"
#include "overlord/runtime/descriptor.h"

namespace overlord::node {

struct LivingProcess {
  int64_t pid = 0;
  uint64_t started = 0;  // in ticks since the host was started; 0: unknown

  OVERLORD_FIELDS(pid, started)
};

LivingProcess own_process();
LivingProcess process_with(int64_t pid);
// Readable once it has ended; not valid: it has ended, or it is another one by now.
runtime::Descriptor handle_of(const LivingProcess& process);
// False: it has ended before.
bool kill_process(const runtime::Descriptor& handle);
// Waits for the end of a process that was killed.
void wait_for_end(const runtime::Descriptor& handle);

// Whether one of its threads waits for a CPU; false: it sleeps, was stopped, or has ended.
bool wants_to_run(int64_t pid);
// That it has used so far; 0: it has ended.
int64_t cpu_ns_of(int64_t pid);
// Of this process and of those that it has started and that live.
int64_t cpu_ns_with_children();
// Memory that could not be dropped and read again, of this process and of all below it.
uint64_t held_bytes_with_children(int64_t pid);

}  // namespace overlord::node
