#include "overlord/node/functions/media_functions.h"

#include "overlord/workers/media_lane.h"

namespace overlord::node {

Result<runtime::MediaFunction*> MediaFunctions::get(const model::Source& source, size_t field) {
  const model::MediaField& declared = source.media[field];
  if (!model::calls_media_function(declared)) return static_cast<runtime::MediaFunction*>(nullptr);
  std::unique_ptr<runtime::MediaFunction>& lane = lanes_[{source.name, field}];
  if (lane) return lane.get();
  const model::Transform& function = declared.use->function;
  // One function may be over text elsewhere: threads of Python tell them apart.
  OVERLORD_TRY(TransformSeats seats,
               transform_seats(function, "source " + source.name + ", media " + declared.name,
                               "media " + function.key(), hosting_));
  OVERLORD_TRY(
      lane, workers::MediaLane::make(pool_options(source, function, hosting_, std::move(seats))));
  return lane.get();
}

Status MediaFunctions::open(const model::Source& source) {
  for (size_t field = 0; field < source.media.size(); ++field) {
    OVERLORD_RETURN_IF_ERROR(get(source, field).status());
  }
  return {};
}

}  // namespace overlord::node
