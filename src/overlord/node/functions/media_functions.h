// MediaFunctions: users' functions over the media of a job's sources, one lane for each field that
// declares one, made when first asked for. Beside Encoders, which have the functions over text.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "overlord/base/status.h"
#include "overlord/model/source.h"
#include "overlord/node/functions/transforming_encoder.h"
#include "overlord/runtime/media_function.h"

namespace overlord::node {

class MediaFunctions {
 public:
  explicit MediaFunctions(TransformHosting hosting) : hosting_(std::move(hosting)) {}

  // Null where the field has none. `field` is in Source::media.
  Result<runtime::MediaFunction*> get(const model::Source& source, size_t field);
  // All of a source, so that what cannot run is found before anything is read.
  Status open(const model::Source& source);
  // Ends every process; callbacks come before it returns.
  void clear() { lanes_.clear(); }

 private:
  TransformHosting hosting_;
  // By source and field.
  std::map<std::pair<std::string, size_t>, std::unique_ptr<runtime::MediaFunction>> lanes_;
};

}  // namespace overlord::node
