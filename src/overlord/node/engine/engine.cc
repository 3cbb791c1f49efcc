#include "overlord/node/engine/engine.h"

#include <utility>

namespace overlord::node {

std::string function_wait_text(const FunctionWait& wait) {
  return "the planner waits for the " + wait.function + ", asked about step " +
         std::to_string(wait.step) +
         (wait.rank ? " where rank " + std::to_string(*wait.rank) + " is " : " ") +
         std::to_string(wait.waiting_ns / 1'000'000) + " ms ago";
}

Engine::TreeNote Engine::note_of(uint32_t tree) {
  const std::lock_guard lock(notes_mutex_);
  const auto found = trees_.find(tree);
  return found == trees_.end() ? TreeNote() : found->second;
}

std::vector<loader::QuarantineNote> Engine::quarantine() {
  const std::lock_guard lock(notes_mutex_);
  return quarantine_;
}

void Engine::note_row(loader::QuarantineNote note) {
  const std::lock_guard lock(notes_mutex_);
  quarantine_.push_back(std::move(note));
}

void Engine::note_tree(uint32_t version, TreeNote note) {
  const std::lock_guard lock(notes_mutex_);
  trees_[version] = std::move(note);
}

}  // namespace overlord::node
