#include "overlord/node/engine/held_batch.h"

#include <array>
#include <cstring>
#include <utility>
#include <vector>

namespace overlord::node {
namespace {

using Holder = std::shared_ptr<const void>;

constexpr uint64_t kAlignment = 64;  // what readers of shared slabs find, too

Holder both(Holder first, Holder second) {
  using Pair = std::pair<Holder, Holder>;
  return std::make_shared<const Pair>(std::move(first), std::move(second));
}

uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

template <typename Slab>
auto fields_of(Slab& slab) {
  return std::array{&slab.tokens, &slab.targets, &slab.loss_weights, &slab.positions};
}

// Moves what the views show into one new piece of memory, which is returned.
Holder move_out(const std::vector<model::FieldView*>& views) {
  uint64_t total = kAlignment;
  for (const model::FieldView* view : views) total += aligned(view->size_bytes);
  auto memory = std::make_shared<std::vector<char>>(total);
  const auto start = reinterpret_cast<uintptr_t>(memory->data());
  char* at = memory->data() + (aligned(start) - start);
  for (model::FieldView* view : views) {
    if (view->data == nullptr) continue;
    std::memcpy(at, view->data, view->size_bytes);
    view->data = at;
    at += aligned(view->size_bytes);
  }
  return memory;
}

uint64_t media_bytes(const model::MediaSlabs& slabs) {
  uint64_t bytes = 0;
  if (!slabs) return bytes;
  for (const model::MediaSlab& slab : *slabs) bytes += slab.data.size_bytes;
  return bytes;
}

// Slabs without data have nothing to hold or to copy; their holder is left as it is.
model::MediaSlabs held_media(const model::MediaSlabs& slabs, const Holder& counted, bool copy) {
  if (!slabs) return slabs;
  auto held = std::make_shared<std::vector<model::MediaSlab>>(*slabs);
  for (model::MediaSlab& slab : *held) {
    if (slab.data.data == nullptr) continue;
    if (copy) slab.holder = move_out({&slab.data});
    slab.holder = both(std::move(slab.holder), counted);
  }
  return held;
}

model::MicrobatchPtr held_batch(const model::Microbatch& batch, const Holder& counted, bool copy) {
  auto held = std::make_shared<model::Microbatch>(batch);
  if (batch.slab) {
    auto slab = std::make_shared<model::Slab>(*batch.slab);
    const auto fields = fields_of(*slab);
    if (copy) slab->holder = move_out({fields.begin(), fields.end()});
    slab->holder = both(std::move(slab->holder), counted);
    held->slab = std::move(slab);
  }
  held->media = held_media(batch.media, counted, copy);
  held->encoded = held_media(batch.encoded, counted, copy);
  return held;
}

}  // namespace

uint64_t payload_bytes(const model::Microbatch& batch) {
  uint64_t bytes = media_bytes(batch.media) + media_bytes(batch.encoded);
  if (!batch.slab) return bytes;
  for (const model::FieldView* view : fields_of(*batch.slab)) bytes += view->size_bytes;
  return bytes;
}

model::MicrobatchPtr counted_batch(const model::Microbatch& batch, const Holder& counted) {
  return held_batch(batch, counted, false);
}

model::MicrobatchPtr private_batch(const model::Microbatch& batch, const Holder& counted) {
  return held_batch(batch, counted, true);
}

}  // namespace overlord::node
