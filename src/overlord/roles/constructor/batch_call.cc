#include "overlord/roles/constructor/batch_call.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "overlord/base/check.h"
#include "overlord/base/rng.h"

namespace overlord::constructor {
namespace {

using model::Element;
using runtime::BatchArray;

constexpr std::string_view kMedia = "media/", kData = "/data";

Element element_of(model::TokenType type) {
  switch (type) {
    case model::TokenType::kUint16:
      return Element::kU16;
    case model::TokenType::kInt32:
      return Element::kI32;
    case model::TokenType::kInt64:
      return Element::kI64;
  }
  return Element::kI32;
}

Element element_of(model::WeightType type) {
  return type == model::WeightType::kUint8 ? Element::kU8 : Element::kF32;
}

// Of every document between two boundaries: it follows from the sample and from where a piece of
// it begins, so chance drawn from it is the same on every mesh. An empty bin has 0.
std::vector<uint64_t> document_keys(const Draft& draft, uint64_t job_key) {
  std::vector<uint64_t> keys;
  const std::vector<model::LineageRow>& lineage = draft.core->lineage;
  const uint64_t own = derive_key(job_key, "document");
  size_t next = 0;
  for (uint32_t row = 0; row < draft.spec.rows; ++row) {
    if (next == lineage.size() || lineage[next].row != row) keys.push_back(0);
    for (; next < lineage.size() && lineage[next].row == row; ++next) {
      const SampleId& id = lineage[next].id;
      keys.push_back(
          random_u64(own, uint64_t{id.source} << 32 | id.pass, id.position, lineage[next].first));
    }
  }
  OVERLORD_CHECK(next == lineage.size(), "lineage goes row by row");
  return keys;
}

// Keeps what the arrays of a question show.
struct Shown {
  std::shared_ptr<const Draft> draft;
  std::vector<uint64_t> keys;
  std::deque<std::vector<int64_t>> numbers;
};

void add(runtime::BatchQuestion* question, std::string name, Element element,
         std::vector<uint64_t> shape, const void* data) {
  uint64_t size = model::element_bytes(element);
  for (const uint64_t side : shape) size *= side;
  question->arrays.push_back({std::move(name), element, std::move(shape), {data, size}});
}

// The same arrays under the same names as in a batch that a rank receives.
void add_media(const model::MediaSlab& slab, Shown* shown, runtime::BatchQuestion* question) {
  const std::string name = std::string(kMedia) + slab.layout.name;
  if (slab.data.data != nullptr) {
    std::vector<uint64_t> shape = {slab.rows};
    shape.insert(shape.end(), slab.layout.row_shape.begin(), slab.layout.row_shape.end());
    add(question, name + std::string(kData), slab.layout.element, std::move(shape), slab.data.data);
  }
  std::vector<int64_t>& grids = shown->numbers.emplace_back();
  std::vector<int64_t>& documents = shown->numbers.emplace_back();
  std::vector<int64_t>& spans = shown->numbers.emplace_back();
  std::vector<int64_t>& splits = shown->numbers.emplace_back(1, 0);
  for (const model::MediaItem& item : slab.items) {
    grids.insert(grids.end(), {item.shape.t, item.shape.h, item.shape.w});
    documents.push_back(item.document);
    spans.insert(spans.end(), {item.first, int64_t{item.first} + item.tokens});
    splits.push_back(static_cast<int64_t>(item.row_begin + item.shape.rows));
  }
  const uint64_t items = slab.items.size();
  add(question, name + "/grid_thw", Element::kI64, {items, 3}, grids.data());
  add(question, name + "/documents", Element::kI64, {items}, documents.data());
  add(question, name + "/token_spans", Element::kI64, {items, 2}, spans.data());
  add(question, name + "/row_splits", Element::kI64, {items + 1}, splits.data());
}

char* array_of(const Draft& draft, std::string_view name) {
  if (name == "tokens") return draft.whole.tokens;
  if (name == "targets") return draft.whole.targets;
  if (name == "loss_weights") return draft.whole.weights;
  return nullptr;
}

Status replace_media(const BatchArray& array, runtime::BufferPool& pool,
                     std::vector<model::MediaSlab>* slabs) {
  std::string_view name = array.name;
  OVERLORD_CHECK(name.starts_with(kMedia) && name.ends_with(kData),
                 "only the values of media are replaced");
  name.remove_prefix(kMedia.size());
  name.remove_suffix(kData.size());
  const auto slab = std::find_if(slabs->begin(), slabs->end(),
                                 [name](const auto& one) { return one.layout.name == name; });
  OVERLORD_CHECK(slab != slabs->end() && slab->data.size_bytes == array.view.size_bytes,
                 "an answer that was checked fits its question");
  if (array.view.size_bytes == 0) return {};
  const runtime::Buffer buffer = pool.acquire(array.view.size_bytes);
  if (!buffer.data) return pool.refusal(array.view.size_bytes);
  std::memcpy(buffer.data.get(), array.view.data, array.view.size_bytes);
  slab->data.data = buffer.data.get();
  slab->holder = buffer.data;
  return {};
}

}  // namespace

runtime::BatchQuestion question_of(const std::shared_ptr<const Draft>& draft, uint32_t group,
                                   uint64_t job_key) {
  const model::MicrobatchCore& core = *draft->core;
  OVERLORD_CHECK(core.index == draft->microbatch, "a draft of its microbatch");
  runtime::BatchQuestion question;
  question.step = core.step;
  question.microbatch = draft->microbatch;
  question.group = group;
  question.key = random_u64(job_key, core.step, draft->microbatch, group);
  const std::vector<uint64_t> shape = {draft->spec.rows, draft->spec.context};
  const Element ids = element_of(draft->spec.token_type);
  add(&question, "tokens", ids, shape, draft->whole.tokens);
  add(&question, "targets", ids, shape, draft->whole.targets);
  add(&question, "loss_weights", element_of(draft->spec.weight_type), shape, draft->whole.weights);
  add(&question, "positions", Element::kI32, shape, draft->whole.positions);
  for (const auto& [name, bounds] :
       {std::pair("cu_seqlens", &core.boundaries.cu_seqlens),
        std::pair("cu_seqlens_padded", &core.boundaries.cu_seqlens_padded)}) {
    add(&question, name, Element::kI32, {bounds->size()}, bounds->data());
  }
  auto shown = std::make_shared<Shown>();
  shown->draft = draft;
  shown->keys = document_keys(*draft, job_key);
  add(&question, "document_keys", Element::kU64, {shown->keys.size()}, shown->keys.data());
  if (draft->media) {
    for (const model::MediaSlab& slab : *draft->media) add_media(slab, shown.get(), &question);
  }
  question.holder = std::move(shown);
  return question;
}

Status take_answer(const runtime::BatchAnswer& answer, runtime::BufferPool& pool, Draft* draft) {
  std::vector<model::MediaSlab> media;
  bool replaced = false;
  for (const BatchArray& array : answer.arrays) {
    if (char* out = array_of(*draft, array.name)) {
      std::memcpy(out, array.view.data, array.view.size_bytes);
      continue;
    }
    OVERLORD_CHECK(replaced || draft->media != nullptr,
                   "an answer that was checked fits its question");
    if (!replaced) media = *draft->media;
    replaced = true;
    OVERLORD_RETURN_IF_ERROR(replace_media(array, pool, &media));
  }
  if (!replaced) return {};
  draft->media = std::make_shared<const std::vector<model::MediaSlab>>(std::move(media));
  return {};
}

}  // namespace overlord::constructor
