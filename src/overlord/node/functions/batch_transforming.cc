#include "overlord/node/functions/batch_transforming.h"

#include <algorithm>

#include "overlord/workers/batch_pool.h"

namespace overlord::node {

Result<std::unique_ptr<runtime::BatchTransform>> make_batch_transform(
    const model::JobSpec& spec, const TransformHosting& hosting) {
  const model::Transform& transform = spec.batch_transform;
  OVERLORD_TRY(TransformSeats seats, transform_seats(transform, "batch_transform", transform.key(),
                                                     hosting, /*binary=*/true));
  workers::BatchPoolOptions options;
  options.function = transform.function;
  options.workers = transform.workers;
  options.check_every = transform.check_every;
  for (const model::Source& source : spec.sources) {
    options.vocabulary = std::max<uint64_t>(options.vocabulary, source.vocabulary);
  }
  options.make_runner = std::move(seats.make);
  options.stop = std::move(seats.stop);
  OVERLORD_TRY(auto pool, workers::BatchPool::make(std::move(options)));
  return std::unique_ptr<runtime::BatchTransform>(std::move(pool));
}

}  // namespace overlord::node
