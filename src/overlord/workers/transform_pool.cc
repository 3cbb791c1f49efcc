#include "overlord/workers/transform_pool.h"

#include <algorithm>
#include <utility>

#include "overlord/base/guarded_by.h"
#include "overlord/base/hash.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/workers/worker_rules.h"

namespace overlord::workers {
namespace {

using runtime::TextRows;
using runtime::TransformedRows;

TextRows chosen(const TextRows& all, const std::vector<uint32_t>& rows) {
  TextRows out;
  out.ends.reserve(rows.size());
  size_t size = 0;
  for (const uint32_t row : rows) size += all.row(row).size();
  out.bytes.reserve(size);
  for (const uint32_t row : rows) {
    out.bytes.append(all.row(row));
    out.ends.push_back(out.bytes.size());
  }
  return out;
}

std::pair<uint64_t, uint64_t> content_key(std::string_view text) {
  const Digest digest = digest_of(text);
  return {digest.high, digest.low};
}

TransformAnswer bad_row(const std::string& reason) {
  return {.kinds = {static_cast<uint8_t>(TransformedAs::kBad)},
          .sizes = {static_cast<uint32_t>(reason.size())},
          .text = reason,
          .tokens = {}};
}

std::string told(const TransformCursor::Row& row, bool is_item) {
  switch (row.kind) {
    case TransformedAs::kText:
      if (is_item) return "an array";
      return "a text of " + std::to_string(row.text.size()) + " bytes";
    case TransformedAs::kTokens:
      return std::to_string(row.count) + " tokens";
    case TransformedAs::kDropped:
      return "None";
    case TransformedAs::kBad:
      return "an error (" + std::string(row.text) + ")";
  }
  return "?";
}

}  // namespace

struct TransformPool::Work {
  TextRows rows;
  runtime::CancelToken cancel;
  runtime::TransformDone done;
  // Under the pool's mutex.
  size_t outstanding = 0;
  Status failure;
  std::vector<Piece> pieces;
  int64_t busy_ns = 0;
};

Result<std::unique_ptr<TransformPool>> TransformPool::make(TransformPoolOptions options) {
  OVERLORD_RETURN_IF_ERROR(check_workers("transform " + options.function + ":", options.workers));
  if (options.batch_rows < 1) {
    return invalid_argument("transform " + options.function + ": a call has at least one row");
  }
  std::unique_ptr<TransformPool> pool(new TransformPool(std::move(options)));
  OVERLORD_RETURN_IF_ERROR(pool->seats_.start());
  return pool;
}

TransformPool::TransformPool(TransformPoolOptions options)
    : options_(std::move(options)),
      sample_(options_.check_every),
      seats_("ol-user-", options_.workers, options_.make_runner,
             [this](auto& seat, Task task) { serve(seat.get(), std::move(task)); }) {}

void TransformPool::apply(TextRows rows, runtime::CancelToken cancel, runtime::TransformDone done) {
  auto work = std::make_shared<Work>();
  work->rows = std::move(rows);
  work->cancel = std::move(cancel);
  work->done = std::move(done);
  std::vector<Task> tasks;
  for (uint32_t row = 0; row < work->rows.rows(); ++row) {
    if (work->rows.row(row).empty()) continue;
    if (tasks.empty() || tasks.back().rows.size() >= options_.batch_rows) {
      tasks.push_back({work, {}, std::nullopt});
    }
    tasks.back().rows.push_back(row);
  }
  // Nothing to do is answered by a seat as well: never on the caller's stack.
  if (tasks.empty()) tasks.push_back({work, {}, std::nullopt});
  work->outstanding = tasks.size();
  for (Task& task : tasks) seats_.push(std::move(task));
}

void TransformPool::serve(TransformRunner* runner, Task task) {
  if (runner == nullptr) {
    return finish(task.work, Status(Code::kCancelled, "the transform's pool has ended"));
  }
  bool useless = task.work->cancel.cancelled();
  {
    const std::lock_guard lock(mutex_);
    useless = useless || !task.work->failure.ok();
  }
  if (!useless) return carry_out(*runner, std::move(task));
  finish(task.work, Status(Code::kCancelled, "transforming was cancelled"));
}

void TransformPool::carry_out(TransformRunner& runner, Task task) {
  const int64_t begin_ns = runtime::steady_now_ns();
  const auto count_time = [&] {
    const std::lock_guard lock(mutex_);
    task.work->busy_ns += runtime::steady_now_ns() - begin_ns;
  };
  if (task.first) {
    const Status same = compare(runner, task);
    count_time();
    if (!same.ok()) return finish(task.work, same);
    std::vector<Piece> pieces;
    pieces.push_back({std::move(task.rows), std::move(*task.first)});
    return finish(task.work, std::move(pieces));
  }
  Result<std::vector<Piece>> pieces = solve(runner, *task.work, task.rows, kTries);
  count_time();
  if (pieces.ok() && pieces->size() == 1 && options_.check_every > 0 && !task.rows.empty() &&
      sample_.takes(digest_of(task.work->rows.row(task.rows.front())).low)) {
    // Back into the queue, so that mostly another worker makes the call the second time.
    return seats_.push({task.work, std::move(task.rows), std::move(pieces->front().answer)});
  }
  finish(task.work, std::move(pieces));
}

Status TransformPool::ready(TransformRunner& runner) {
  const Status status = ready_in_tries(runner);
  return status.ok() || status.code() == Code::kCancelled ? status : named(status);
}

Result<TransformAnswer> TransformPool::call(TransformRunner& runner, const Work& work,
                                            const Rows& rows, int tries) {
  const TextRows text = chosen(work.rows, rows);
  for (int i = 1;; ++i) {
    OVERLORD_RETURN_IF_ERROR(ready(runner));
    Result<TransformAnswer> answer = runner.run(text);
    if (answer.ok()) return answer;
    if (answer.status().code() == Code::kUserFunction) return named(answer.status());
    if (answer.status().code() != Code::kUnavailable || i >= tries) return answer;
    if (seats_.ending()) return Status(Code::kCancelled, "the transform's pool has ended");
    ++retried_;
  }
}

// Kills and hangs are traced to single rows: one fails twice by itself before it is condemned.
Result<std::vector<TransformPool::Piece>> TransformPool::solve(TransformRunner& runner,
                                                               const Work& work, const Rows& rows,
                                                               int tries) {
  std::vector<Piece> pieces;
  Rows open;
  for (const uint32_t row : rows) {
    const std::string* known = verdict(work.rows.row(row));
    if (known == nullptr) {
      open.push_back(row);
      continue;
    }
    pieces.push_back({{row}, bad_row(*known)});
  }
  if (open.empty()) return pieces;
  Result<TransformAnswer> answer = call(runner, work, open, tries);
  if (answer.ok()) {
    pieces.push_back({std::move(open), std::move(*answer)});
    return pieces;
  }
  if (answer.status().code() != Code::kUnavailable) return answer.status();
  if (open.size() == 1) {
    OVERLORD_TRY(Piece piece, condemn(work, open.front(), answer.status().message()));
    pieces.push_back(std::move(piece));
    return pieces;
  }
  const auto middle = open.begin() + static_cast<ptrdiff_t>(open.size() / 2);
  for (const Rows& half : {Rows(open.begin(), middle), Rows(middle, open.end())}) {
    OVERLORD_TRY(std::vector<Piece> found,
                 solve(runner, work, half, half.size() == 1 ? kTries : 1));
    for (Piece& piece : found) pieces.push_back(std::move(piece));
  }
  return pieces;
}

const std::string* TransformPool::verdict(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (verdicts_.empty()) return nullptr;
  const auto found = verdicts_.find(content_key(text));
  return found == verdicts_.end() ? nullptr : &found->second;  // never erased
}

Result<TransformPool::Piece> TransformPool::condemn(const Work& work, uint32_t row,
                                                    const std::string& story) {
  const std::string reason = "transform " + options_.function + ": " + story;
  if (!options_.may_decide) {
    return Status(Code::kUserFunction,
                  reason +
                      "; that is no function of the data, so it needs one planner to decide it: "
                      "host all ranks in this process, use engine=\"processes\", or mend the "
                      "function");
  }
  const std::lock_guard lock(mutex_);
  if (++condemned_ > options_.give_up_after) {
    return Status(Code::kUserFunction, reason + "; as did " +
                                           std::to_string(options_.give_up_after) +
                                           " rows before: it is the function, not the data");
  }
  verdicts_.emplace(content_key(work.rows.row(row)), reason);
  return Piece{{row}, bad_row(reason)};
}

// The second time in the other order: a row's answer may not hang on its neighbours either.
Status TransformPool::compare(TransformRunner& runner, const Task& task) {
  const Rows turned(task.rows.rbegin(), task.rows.rend());
  const Result<TransformAnswer> second = call(runner, *task.work, turned, kTries);
  if (!second.ok()) {
    // It has worked: what befell a worker since then says nothing of the rows.
    return second.status().code() == Code::kUnavailable ? Status() : second.status();
  }
  TransformCursor first(*task.first), again(*second);
  std::vector<TransformCursor::Row> seconds;
  for (size_t i = 0; i < turned.size(); ++i) seconds.push_back(again.next());
  for (size_t i = 0; i < task.rows.size(); ++i) {
    const TransformCursor::Row before = first.next();
    const TransformCursor::Row& after = seconds[turned.size() - 1 - i];
    if (before.same(after)) continue;
    const std::string_view text = task.work->rows.row(task.rows[i]);
    const std::string what = options_.items ? "item" : "row";
    const std::string size = options_.items ? "" : " (" + std::to_string(text.size()) + " bytes)";
    return named(
        Status(Code::kUserFunction,
               "is not deterministic: for the same " + what + size + " it gave " +
                   told(before, options_.items) + " and then, in a batch in another order, " +
                   told(after, options_.items) + (before.kind == after.kind ? " that differ" : "") +
                   "; what it gives for a " + what + " must follow from that " + what + " alone"));
  }
  return {};
}

void TransformPool::finish(const std::shared_ptr<Work>& work, Result<std::vector<Piece>> pieces) {
  {
    const std::lock_guard lock(mutex_);
    if (pieces.ok()) {
      for (Piece& piece : *pieces) work->pieces.push_back(std::move(piece));
    } else if (work->failure.ok()) {
      work->failure = pieces.status();
    }
    if (--work->outstanding > 0) return;
  }
  if (!work->failure.ok()) return work->done(work->failure);
  work->done(merge(*work));
}

TransformedRows TransformPool::merge(const Work& work) const {
  const size_t rows = work.rows.rows();
  std::vector<TransformCursor::Row> by_row(rows, {TransformedAs::kText, {}, nullptr, 0});
  size_t text_bytes = 0, tokens = 0;
  for (const Piece& piece : work.pieces) {
    TransformCursor cursor(piece.answer);
    for (const uint32_t row : piece.rows) by_row[row] = cursor.next();
    text_bytes += piece.answer.text.size();
    tokens += piece.answer.tokens.size();
  }
  TransformedRows out;
  out.elapsed_ns = work.busy_ns;
  out.text.bytes.reserve(text_bytes);
  out.tokens.tokens.reserve(tokens);
  for (uint32_t row = 0; row < rows; ++row) {
    const TransformCursor::Row& got = by_row[row];
    const uint64_t size =
        got.kind == TransformedAs::kTokens ? got.count * sizeof(int32_t) : got.text.size();
    if (got.kind == TransformedAs::kDropped) {
      out.bad.push_back({row, "dropped by transform " + options_.function});
    } else if (got.kind == TransformedAs::kBad) {
      out.bad.push_back({row, std::string(got.text)});
    } else if (size > options_.max_row_bytes) {
      out.bad.push_back({row, "transform " + options_.function + " made " + std::to_string(size) +
                                  " bytes of it, over the source's limits.max_document of " +
                                  std::to_string(options_.max_row_bytes)});
    } else if (got.kind == TransformedAs::kText) {
      out.text.bytes.append(got.text);
    } else {
      out.tokens.tokens.insert(out.tokens.tokens.end(), got.tokens, got.tokens + got.count);
      ++out.token_rows;
    }
    out.text.ends.push_back(out.text.bytes.size());
    out.tokens.ends.push_back(out.tokens.tokens.size());
  }
  return out;
}

Status TransformPool::named(const Status& status) const {
  return {status.code(), "transform " + options_.function + " " + status.message()};
}

}  // namespace overlord::workers
