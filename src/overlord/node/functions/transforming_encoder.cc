#include "overlord/node/functions/transforming_encoder.h"

#include <sys/eventfd.h>

#include <utility>

#include "overlord/runtime/steady_clock.h"
#include "overlord/runtime/trace.h"

namespace overlord::node {
namespace {

using runtime::EncodedRows;
using runtime::TransformedRows;

constexpr int64_t kMillisecond = 1'000'000;

Result<std::shared_ptr<workers::TransformWorkers>> workers_of(const model::Transform& transform) {
  auto workers = std::make_shared<workers::TransformWorkers>();
  // The order of a set of texts is the same in every worker.
  workers->command = {transform.command, workers::environment_with({"PYTHONHASHSEED=0"})};
  workers->expected = transform.key();
  workers->batch_deadline_ns = int64_t{transform.deadline_ms} * kMillisecond;
  workers->memory_bytes = transform.memory_bytes;
  workers->stop = runtime::Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!workers->stop.valid()) return Status(Code::kResource, "cannot make an eventfd");
  return workers;
}

// It has ended just now.
void note_span(const std::string& source, int64_t elapsed_ns) {
  if (!runtime::tracing()) return;
  const int64_t end_ns = runtime::steady_now_ns();
  runtime::TraceBook::of_process().note("python", source, end_ns - elapsed_ns, end_ns);
}

// Tokens of the transform where it gave them, else those of the tokenizer.
EncodedRows joined(TransformedRows rows, const EncodedRows& encoded) {
  EncodedRows out;
  out.elapsed_ns = rows.elapsed_ns + encoded.elapsed_ns;
  out.bad = std::move(rows.bad);
  out.tokens.reserve(rows.tokens.tokens.size() + encoded.tokens.size());
  out.ends.reserve(rows.tokens.ends.size());
  const auto range = [](const EncodedRows& from, size_t row) {
    const uint64_t begin = row == 0 ? 0 : from.ends[row - 1];
    return std::pair(from.tokens.begin() + static_cast<ptrdiff_t>(begin),
                     from.tokens.begin() + static_cast<ptrdiff_t>(from.ends[row]));
  };
  for (size_t row = 0; row < rows.tokens.ends.size(); ++row) {
    auto [begin, end] = range(rows.tokens, row);
    if (begin == end && !encoded.ends.empty()) std::tie(begin, end) = range(encoded, row);
    out.tokens.insert(out.tokens.end(), begin, end);
    out.ends.push_back(out.tokens.size());
  }
  return out;
}

// Without a tokenizer text is no answer.
EncodedRows tokens_alone(TransformedRows rows, const std::string& function) {
  std::vector<model::BadRow> bad;
  auto known = rows.bad.begin();
  for (uint32_t row = 0; row < rows.text.rows(); ++row) {
    if (known != rows.bad.end() && known->index == row) {
      bad.push_back(std::move(*known++));
    } else if (!rows.text.row(row).empty()) {
      bad.push_back({row, "transform " + function + " gave text, and the source has no tokenizer"});
    }
  }
  rows.bad = std::move(bad);
  return joined(std::move(rows), {});
}

}  // namespace

Result<TransformSeats> transform_seats(const model::Transform& transform, const std::string& where,
                                       const std::string& desk_key, const TransformHosting& hosting,
                                       bool binary) {
  TransformSeats seats;
  if (transform.lane == model::Lane::kThread && hosting.desk) {
    seats.make = [desk = hosting.desk, desk_key, binary,
                  deadline_ns = int64_t{transform.deadline_ms} * kMillisecond] {
      return std::make_unique<DeskRunner>(desk, desk_key, deadline_ns, binary);
    };
    seats.stop = [desk = hosting.desk] { desk->close(); };
    return seats;
  }
  if (transform.command.empty()) {
    return invalid_argument(where + ": transform " + transform.function +
                            " of lane thread is no function of a module, so it runs only in the "
                            "process that it was passed to, in the embedded engine");
  }
  OVERLORD_TRY(const auto workers, workers_of(transform));
  seats.make = [workers] { return std::make_unique<workers::TransformProcess>(workers); };
  seats.worker_bytes = [workers] { return workers->living.resident_bytes(); };
  seats.stop = [workers] { eventfd_write(workers->stop.get(), 1); };
  return seats;
}

workers::TransformPoolOptions pool_options(const model::Source& source,
                                           const model::Transform& transform,
                                           const TransformHosting& hosting, TransformSeats seats) {
  workers::TransformPoolOptions options;
  options.function = transform.function;
  options.workers = transform.workers;
  options.batch_rows = transform.batch_rows;
  options.check_every = transform.check_every;
  options.max_row_bytes = source.limits.max_document_bytes;
  options.may_decide = hosting.one_planner;
  options.give_up_after += source.bad_rows_allowed;
  options.make_runner = std::move(seats.make);
  options.stop = std::move(seats.stop);
  options.worker_bytes = std::move(seats.worker_bytes);
  return options;
}

Result<std::unique_ptr<runtime::RowTransform>> make_transform(const model::Source& source,
                                                              const TransformHosting& hosting) {
  const model::Transform& transform = source.transform;
  OVERLORD_TRY(TransformSeats seats,
               transform_seats(transform, "source " + source.name, transform.key(), hosting));
  OVERLORD_TRY(auto pool, workers::TransformPool::make(
                              pool_options(source, transform, hosting, std::move(seats))));
  return std::unique_ptr<runtime::RowTransform>(std::move(pool));
}

TransformingEncoder::TransformingEncoder(std::unique_ptr<runtime::RowTransform> transform,
                                         const model::Source& source,
                                         runtime::TextEncoder* tokenizer)
    : transform_(std::move(transform)),
      source_(source.name),
      function_(source.transform.function),
      tokenizer_(tokenizer),
      python_ns_(std::make_shared<std::atomic<uint64_t>>(0)) {}

uint64_t TransformingEncoder::worker_bytes() const {
  const auto* workers = dynamic_cast<const runtime::EncoderCosts*>(transform_.get());
  const auto* tokenizers = dynamic_cast<const runtime::EncoderCosts*>(tokenizer_);
  return (workers != nullptr ? workers->worker_bytes() : 0) +
         (tokenizers != nullptr ? tokenizers->worker_bytes() : 0);
}

void TransformingEncoder::encode(runtime::TextRows rows, runtime::CancelToken cancel,
                                 runtime::EncodeDone done) {
  transform_->apply(
      std::move(rows), cancel,
      [source = source_, function = function_, tokenizer = tokenizer_, python_ns = python_ns_,
       cancel, done = std::move(done)](Result<TransformedRows> got) {
        if (!got.ok()) return done(got.status());
        *python_ns += static_cast<uint64_t>(got->elapsed_ns);
        note_span(source, got->elapsed_ns);
        if (tokenizer == nullptr) return done(tokens_alone(std::move(*got), function));
        if (got->text.bytes.empty()) return done(joined(std::move(*got), {}));
        auto held = std::make_shared<TransformedRows>(std::move(*got));
        runtime::TextRows text = std::move(held->text);
        tokenizer->encode(std::move(text), cancel, [held, done](Result<EncodedRows> encoded) {
          if (!encoded.ok()) return done(encoded.status());
          if (held->token_rows > 0) return done(joined(std::move(*held), *encoded));
          encoded->elapsed_ns += held->elapsed_ns;
          encoded->bad = std::move(held->bad);
          done(std::move(encoded));
        });
      });
}

}  // namespace overlord::node
