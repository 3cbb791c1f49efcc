// Shadows: a slot that has several homes is active in one process and stands by in others. Which of
// them takes over when the active one is lost, and in which generation. The keeper alone decides
// it, so that a slot is never active twice in one generation. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "overlord/protocol/control.h"

namespace overlord::keeper {

// Of a role that is active in this process.
uint32_t generation_of(const protocol::ProcessRoles& process, const protocol::Address& role);

struct Promotion {
  protocol::Address role;
  std::string from, to;  // processes
  uint32_t generation = 1;

  friend bool operator==(const Promotion&, const Promotion&) = default;
};

using Lives = std::function<bool(const protocol::ProcessRoles&)>;

// What becomes of the slots of a group that is lost: those with a home that stands by and lives go
// on there, one generation later. The others wait for the group to come again.
std::vector<Promotion> promotions(const std::vector<protocol::ProcessRoles>& groups,
                                  const std::string& lost, const Lives& lives);
// For people; with the names of the sources where they are known.
std::string text_of(const Promotion& promotion, const std::vector<std::string>& sources);
// The group that was lost stands by from now on.
void promote(const Promotion& promotion, std::vector<protocol::ProcessRoles>* groups);
// A group starts again, with all that is active in it: no slot goes back to a generation it had.
void start_again(protocol::ProcessRoles* group);
// A keeper that starts anew finds a group alive. It does not know which slots were promoted, so
// those that may have been are told a generation that none before it can have given.
void adopt(const std::vector<protocol::ProcessRoles>& groups, uint32_t generation,
           protocol::ProcessRoles* group);
// Later than all that roles of these groups have.
uint32_t next_generation(const std::vector<protocol::ProcessRoles>& groups);

struct Protection {          // slots that are to have shadows
  uint64_t shadowed = 0;     // one of them lives
  uint64_t unprotected = 0;  // none does
};
Protection protection(const std::vector<protocol::ProcessRoles>& groups, const Lives& lives);

}  // namespace overlord::keeper
