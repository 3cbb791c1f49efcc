#include "overlord/runtime/batch_transform.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace overlord::runtime {
namespace {

using model::Element;

Status wrong(std::string message) { return {Code::kUserFunction, std::move(message)}; }

bool may_be_replaced(std::string_view name) {
  if (name == "tokens" || name == "targets" || name == "loss_weights") return true;
  return name.starts_with("media/") && name.ends_with("/data");
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (const uint64_t side : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(side);
  return text + "]";
}

template <typename T>
const T* values_of(const BatchArray& array) {
  return static_cast<const T*>(array.view.data);
}

// Calls `use` with a pointer to the values, in their own type; false: of no type a batch has.
template <typename Use>
bool with_values(const BatchArray& array, const Use& use) {
  switch (array.element) {
    case Element::kU8:
      use(values_of<uint8_t>(array));
      return true;
    case Element::kU16:
      use(values_of<uint16_t>(array));
      return true;
    case Element::kI32:
      use(values_of<int32_t>(array));
      return true;
    case Element::kI64:
      use(values_of<int64_t>(array));
      return true;
    case Element::kF32:
      use(values_of<float>(array));
      return true;
    default:
      return false;
  }
}

uint64_t count_of(const BatchArray& array) {
  return array.view.size_bytes / model::element_bytes(array.element);
}

// The first place where a weight is not within [0, before]; the count: there is none. What is no
// number is within nothing.
uint64_t first_raised(const BatchArray& before, const BatchArray& after) {
  uint64_t at = count_of(after);
  with_values(after, [&](const auto* now) {
    using Value = std::remove_cvref_t<decltype(*now)>;
    const auto* was = values_of<Value>(before);
    for (uint64_t i = 0; i < count_of(after); ++i) {
      if (now[i] >= Value{0} && now[i] <= was[i]) continue;
      at = i;
      return;
    }
  });
  return at;
}

// The first id outside the vocabulary among those that carry loss; without weights among all.
uint64_t first_foreign(const BatchArray& ids, const BatchArray* weights, uint64_t vocabulary) {
  uint64_t at = count_of(ids);
  std::vector<bool> counts(weights == nullptr ? 0 : count_of(ids));
  if (weights != nullptr) {
    with_values(*weights, [&](const auto* values) {
      for (uint64_t i = 0; i < counts.size(); ++i) counts[i] = values[i] > 0;
    });
  }
  with_values(ids, [&](const auto* values) {
    for (uint64_t i = 0; i < count_of(ids); ++i) {
      // A negative id is above every vocabulary once it is unsigned.
      if (static_cast<uint64_t>(static_cast<int64_t>(values[i])) < vocabulary) continue;
      if (weights != nullptr && !counts[i]) continue;
      at = i;
      return;
    }
  });
  return at;
}

Status check_shape(const BatchQuestion& question, const BatchArray& array) {
  const BatchArray* before = question.find(array.name);
  if (before == nullptr || !may_be_replaced(array.name)) {
    return wrong("replaced " + array.name +
                 "; allowed: tokens, targets, loss_weights and the data of media");
  }
  if (array.element != before->element || array.shape != before->shape ||
      array.view.size_bytes != before->view.size_bytes) {
    return wrong("gave " + array.name + " of another shape or type: " + shape_text(array.shape) +
                 " in place of " + shape_text(before->shape));
  }
  return {};
}

const BatchArray* find_in(const std::vector<BatchArray>& arrays, std::string_view name) {
  const auto found = std::find_if(arrays.begin(), arrays.end(),
                                  [name](const BatchArray& array) { return array.name == name; });
  return found == arrays.end() ? nullptr : &*found;
}

Status check_values(const BatchQuestion& question, const BatchAnswer& answer, uint64_t vocabulary) {
  const BatchArray* weights = find_in(answer.arrays, "loss_weights");
  if (weights != nullptr) {
    const uint64_t at = first_raised(*question.find("loss_weights"), *weights);
    if (at < count_of(*weights)) {
      return wrong("raised the loss weight of token " + std::to_string(at) +
                   " of the microbatch, or made it no number; weights may only be lowered: how "
                   "many tokens of a step carry loss is planned");
    }
  } else {
    weights = question.find("loss_weights");
  }
  if (vocabulary == 0) return {};
  for (const char* name : {"tokens", "targets"}) {
    const BatchArray* ids = find_in(answer.arrays, name);
    if (ids == nullptr) continue;
    const bool targets = std::string_view(name) == "targets";
    const uint64_t at = first_foreign(*ids, targets ? weights : nullptr, vocabulary);
    if (at == count_of(*ids)) continue;
    return wrong(std::string("gave in ") + name + " an id at " + std::to_string(at) +
                 " of the microbatch that is outside the vocabulary of " +
                 std::to_string(vocabulary));
  }
  return {};
}

}  // namespace

const BatchArray* BatchQuestion::find(std::string_view name) const { return find_in(arrays, name); }

std::string BatchQuestion::place() const {
  return "step " + std::to_string(step) + ", microbatch " + std::to_string(microbatch) +
         " of group " + std::to_string(group);
}

Status check_answer(const BatchQuestion& question, const BatchAnswer& answer, uint64_t vocabulary) {
  std::set<std::string_view> seen;
  for (const BatchArray& array : answer.arrays) {
    OVERLORD_RETURN_IF_ERROR(check_shape(question, array));
    if (!seen.insert(array.name).second) return wrong("replaced " + array.name + " twice");
  }
  return check_values(question, answer, vocabulary);
}

bool same_answer(const BatchAnswer& one, const BatchAnswer& other) {
  if (one.arrays.size() != other.arrays.size()) return false;
  return std::all_of(one.arrays.begin(), one.arrays.end(), [&](const BatchArray& array) {
    const BatchArray* same = find_in(other.arrays, array.name);
    return same != nullptr && same->view.size_bytes == array.view.size_bytes &&
           (array.view.size_bytes == 0 ||
            std::memcmp(same->view.data, array.view.data, array.view.size_bytes) == 0);
  });
}

}  // namespace overlord::runtime
