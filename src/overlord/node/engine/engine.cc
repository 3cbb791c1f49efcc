#include "overlord/node/engine/engine.h"

#include <utility>

namespace overlord::node {

std::vector<model::Axis> Engine::axes_of(uint32_t tree) {
  const std::lock_guard lock(notes_mutex_);
  const auto found = trees_.find(tree);
  return found == trees_.end() ? std::vector<model::Axis>() : found->second;
}

std::vector<loader::QuarantineNote> Engine::quarantine() {
  const std::lock_guard lock(notes_mutex_);
  return quarantine_;
}

void Engine::note_row(loader::QuarantineNote note) {
  const std::lock_guard lock(notes_mutex_);
  quarantine_.push_back(std::move(note));
}

void Engine::note_tree(uint32_t version, std::vector<model::Axis> axes) {
  const std::lock_guard lock(notes_mutex_);
  trees_[version] = std::move(axes);
}

}  // namespace overlord::node
