#include "overlord/node/engine/engine.h"

#include <utility>

namespace overlord::node {

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
