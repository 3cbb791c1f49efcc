#include "overlord/media/field_chain.h"

#include "overlord/base/check.h"
#include "overlord/runtime/quote.h"

namespace overlord::media {
namespace {

// Every kind that the stream knows.
std::span<const KindOfMedia* const> kinds() {
  static const KindOfMedia* const all[] = {&image_kind(), &audio_kind(), &video_kind()};
  return all;
}

}  // namespace

const KindOfMedia& kind_of_media(model::MediaKind kind) {
  const KindOfMedia* found = nullptr;
  for (const KindOfMedia* one : kinds()) {
    if (one->kind == kind) found = one;
  }
  OVERLORD_CHECK(found != nullptr, "a kind of media without chains");
  return *found;
}

Result<model::MediaKind> media_kind(std::string_view name) {
  std::string allowed;
  for (const KindOfMedia* one : kinds()) {
    if (one->name == name) return one->kind;
    allowed += (allowed.empty() ? "" : ", ") + std::string(one->name);
  }
  return invalid_argument("no kind of media: " + runtime::quote(name) + "; there are " + allowed);
}

}  // namespace overlord::media
