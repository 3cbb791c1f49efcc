// How the processes of a node ask malloc to deal with memory.
#pragma once

namespace overlord::node {

// Few threads allocate much here, and what they free should go back: by default every thread gets
// an arena, and after the first large buffer the following ones are kept in it. Before any thread
// is started.
void give_back_what_is_freed();

// Every slice that comes over the wire passes through buffers of Flight's, megabytes each. Mapped
// anew for each slice, their pages would be touched for the first time again and again, which costs
// more than the rest of receiving; so a process that talks to other hosts keeps them.
void keep_large_buffers();

}  // namespace overlord::node
