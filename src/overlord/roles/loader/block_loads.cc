#include "overlord/roles/loader/block_loads.h"

#include <atomic>
#include <optional>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/columnar/encoded_rows.h"
#include "overlord/runtime/trace.h"

namespace overlord::loader {
namespace {

// Any valid text has tokens: a tokenizer that fails is broken, its rows are not, so nothing may be
// quarantined for it.
Status tokenizer_failure(const Status& status) {
  if (status.code() == Code::kUserFunction) return status;  // a transform's, which it names
  const Code code = status.code() == Code::kBadData ? Code::kUnavailable : status.code();
  return Status(code, "tokenizer: " + status.message());
}

uint64_t bytes_of(const columnar::RowBlock& rows) {
  return rows.is_text ? rows.text.rows.bytes.size() : rows.tokens.size_bytes();
}

}  // namespace

struct BlockLoads::Read {
  columnar::BlockRequest request;
  runtime::Executor* executor = nullptr;  // that decodes it
  std::vector<runtime::Bytes> pieces;
  std::atomic<size_t> outstanding{0};
  std::atomic<bool> failed{false};
  int64_t begin_ns = 0;
  BlockDone done;
  std::optional<BlockInWork> in_work;
  runtime::HeldBytesPtr reading;
  std::atomic<uint64_t> read_bytes{0};  // counted in `reading`

  ~Read() { let_go(); }
  void let_go() { reading->let_go(read_bytes.exchange(0)); }
};

BlockLoads::BlockLoads(std::shared_ptr<const OpenSource> source,
                       std::shared_ptr<PayloadBudget> budget, LoaderSeams seams, LoaderProbe* probe)
    : source_(std::move(source)),
      budget_(std::move(budget)),
      seams_(std::move(seams)),
      probe_(probe),
      cache_(budget_, probe) {}

void BlockLoads::stop() {
  stopped_ = true;
  cancel_.cancel();
  whole_reads_.clear();
  cache_.clear();
}

void BlockLoads::load(uint32_t block, std::vector<uint32_t> rows, BlockDone done) {
  if (const TokenBlockPtr kept = cache_.use(block)) return done(kept);
  if (!rows.empty()) {
    read({block, std::move(rows)}, seams_.executor, std::move(done));
    return;
  }
  WholeRead& whole = whole_reads_[block];
  whole.waiting.push_back(std::move(done));
  // Also where it is being read in spare time, of which there may be none: whoever is first serves.
  if (!std::exchange(whole.urgent, true)) read_whole(block, seams_.executor);
}

void BlockLoads::read_whole(uint32_t block, runtime::Executor* executor) {
  read({block, {}}, executor, [this, block](Result<TokenBlockPtr> result) {
    const auto whole = whole_reads_.find(block);
    if (whole == whole_reads_.end()) return;  // another read of it was faster
    if (result.ok() && !cache_.keep(block, *result, (*result)->size_bytes())) {
      seams_.reclaim();  // what others do not use comes free for the next block
    }
    const std::vector<BlockDone> waiters = std::move(whole->second.waiting);
    whole_reads_.erase(whole);
    for (const BlockDone& waiter : waiters) waiter(result);
  });
}

// A failure of what is read ahead shows when it is needed.
void BlockLoads::warm(uint32_t block) {
  if (cache_.contains(block) || whole_reads_.contains(block) || !has_room(block)) return;
  load(block, {}, [](const Result<TokenBlockPtr>&) {});
}

bool BlockLoads::warm_in_spare_time(uint32_t block, std::function<void()> done) {
  if (cache_.contains(block)) {
    done();
    return true;
  }
  if (!has_room(block)) return false;
  WholeRead& whole = whole_reads_[block];
  whole.waiting.push_back([done = std::move(done)](const Result<TokenBlockPtr>&) { done(); });
  if (whole.waiting.size() > 1) return true;
  const bool spare = seams_.spare_executor != nullptr;
  read_whole(block, spare ? seams_.spare_executor : seams_.executor);
  return true;
}

bool BlockLoads::has_room(uint32_t block) const {
  const uint64_t size = source_->manifest.blocks[block].size_bytes;
  return budget_->used_bytes.load() + 2 * size <= budget_->limit_bytes;
}

void BlockLoads::read(columnar::BlockRequest request, runtime::Executor* executor, BlockDone done) {
  auto read = std::make_shared<Read>();
  read->executor = executor;
  read->request = std::move(request);
  read->request.pool = seams_.pool;
  read->request.scratch = seams_.scratch;
  read->done = std::move(done);
  read->reading = probe_->reading;
  read->begin_ns = seams_.clock->now_ns();
  Result<std::vector<columnar::RangeRequest>> ranges = source_->reader->ranges(read->request);
  if (!ranges.ok()) {
    finish(read, ranges.status());
    return;
  }
  read->in_work.emplace(probe_);
  probe_->current_block = read->request.block;
  probe_->stage = LoadStage::kRead;
  read->pieces.resize(ranges->size());
  read->outstanding = ranges->size() + 1;  // one extra, so that none finishes before all are sent
  const auto arrived = [self = shared_from_this(), read](size_t i, Result<runtime::Bytes> bytes) {
    if (bytes.ok()) {
      self->probe_->read_bytes += bytes->size;
      self->probe_->reading->take(bytes->size);
      read->read_bytes += bytes->size;
      read->pieces[i] = std::move(*bytes);
    } else if (!read->failed.exchange(true)) {
      self->finish(read, bytes.status());
    }
    OVERLORD_CHECK(read->outstanding > 0, "a range arrives once");
    if (--read->outstanding == 0 && !read->failed) self->decode(read);
  };
  for (size_t i = 0; i < ranges->size(); ++i) {
    const columnar::RangeRequest& range = (*ranges)[i];
    const model::ShardEntry& shard = source_->manifest.shards[range.shard];
    seams_.storage->read(
        {shard.uri, range.offset, range.size_bytes, shard.fingerprint}, cancel_,
        [arrived, i](Result<runtime::Bytes> bytes) { arrived(i, std::move(bytes)); });
  }
  if (--read->outstanding == 0 && !read->failed) decode(read);
}

void BlockLoads::decode(const std::shared_ptr<Read>& read) {
  const int64_t read_ns = seams_.clock->now_ns();
  probe_->read_wait_ns += static_cast<uint64_t>(read_ns - read->begin_ns);
  if (runtime::tracing()) {
    runtime::TraceBook::of_process().note("read", source_->spec.name, read->begin_ns, read_ns);
  }
  read->executor->post([self = shared_from_this(), read] {
    if (self->cancel_.cancelled()) return;
    const int64_t begin_ns = self->seams_.clock->now_ns();
    self->probe_->stage = LoadStage::kDecode;
    Result<columnar::RowBlock> rows = self->source_->reader->decode(read->request, read->pieces);
    read->pieces.clear();
    const int64_t end_ns = self->seams_.clock->now_ns();
    self->probe_->decode_ns += static_cast<uint64_t>(end_ns - begin_ns);
    self->probe_->decode_in_bytes += read->read_bytes;
    read->let_go();
    if (rows.ok()) self->probe_->decode_out_bytes += bytes_of(*rows);
    if (runtime::tracing()) {
      runtime::TraceBook::of_process().note("decode", self->source_->spec.name, begin_ns, end_ns);
    }
    if (!rows.ok()) {
      self->finish(read, rows.status());
    } else if (rows->is_text) {
      self->tokenise(read, std::move(rows->text));
    } else {
      self->finish(read, std::make_shared<const columnar::TokenBlock>(std::move(rows->tokens)));
    }
  });
}

void BlockLoads::tokenise(const std::shared_ptr<Read>& read, columnar::TextBlock text) {
  probe_->stage = LoadStage::kTokenise;
  auto bad = std::make_shared<std::vector<model::BadRow>>(std::move(text.bad));
  std::vector<uint32_t> bytes = columnar::text_bytes(source_->spec, text.rows);
  probe_->tokenise_in_bytes += text.rows.bytes.size();
  seams_.encoder->encode(
      std::move(text.rows), cancel_,
      [self = shared_from_this(), read, bad,
       bytes = std::move(bytes)](Result<runtime::EncodedRows> encoded) {
        if (encoded.ok()) self->count_tokens(*encoded);
        if (!encoded.ok()) {
          self->finish(read, tokenizer_failure(encoded.status()));
          return;
        }
        columnar::TokenBlock block =
            columnar::to_token_block(self->source_->spec, self->source_->manifest,
                                     read->request.block, std::move(*encoded), std::move(*bad));
        block.text_bytes = bytes;
        self->finish(read, std::make_shared<const columnar::TokenBlock>(std::move(block)));
      });
}

// Its rows waited for a turn before: the time that was spent on them ends here.
void BlockLoads::count_tokens(const runtime::EncodedRows& encoded) {
  probe_->tokenise_ns += static_cast<uint64_t>(encoded.elapsed_ns);
  probe_->tokenise_out_bytes +=
      encoded.tokens.size() * sizeof(encoded.tokens[0]) + encoded.mask.size();
  if (!runtime::tracing()) return;
  const int64_t end_ns = seams_.clock->now_ns();
  runtime::TraceBook::of_process().note("tokenise", source_->spec.name, end_ns - encoded.elapsed_ns,
                                        end_ns);
}

void BlockLoads::finish(const std::shared_ptr<Read>& read, Result<TokenBlockPtr> result) {
  seams_.on_loop([self = shared_from_this(), read, result = std::move(result)]() mutable {
    if (self->stopped_) return;
    const BlockDone done = std::move(read->done);
    read->done = nullptr;
    if (done) done(std::move(result));
  });
}

}  // namespace overlord::loader
