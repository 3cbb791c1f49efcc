#include "overlord/roles/loader/media_blocks.h"

#include <atomic>
#include <span>
#include <utility>

#include "overlord/runtime/trace.h"

namespace overlord::loader {

std::span<const runtime::Bytes> DecodedBlobs::of(uint32_t row, size_t field, size_t fields) const {
  const size_t list = row * fields + field;
  const size_t begin = list == 0 ? 0 : places.ends[list - 1];
  return std::span(blobs).subspan(begin, places.ends[list] - begin);
}

struct MediaBlocks::Read {
  columnar::BlockRequest request;
  std::vector<runtime::Bytes> pieces;
  std::atomic<size_t> outstanding{1};  // one extra until all are asked for
  int64_t begin_ns = 0;
  std::atomic<bool> failed{false};
  Status failure;  // written once, by whoever set `failed`
};

MediaBlocks::MediaBlocks(std::shared_ptr<const OpenSource> source,
                         std::shared_ptr<PayloadBudget> budget, LoaderSeams seams,
                         LoaderProbe* probe)
    : source_(std::move(source)),
      budget_(std::move(budget)),
      seams_(std::move(seams)),
      probe_(probe) {}

MediaBlocks::~MediaBlocks() {
  for (const auto& [block, kept] : kept_) budget_->used_bytes -= kept.blobs->size_bytes;
}

void MediaBlocks::stop() {
  stopped_ = true;
  cancel_.cancel();
}

void MediaBlocks::load(uint32_t block, Done done) {
  if (const auto found = kept_.find(block); found != kept_.end()) {
    ++probe_->cache_hits;
    found->second.used = true;
    recent_.splice(recent_.begin(), recent_, found->second.recent);
    const DecodedBlobsPtr blobs = found->second.blobs;
    return done(blobs);
  }
  std::vector<Done>& waiting = waiting_[block];
  waiting.push_back(std::move(done));
  if (waiting.size() == 1) read(block);
}

void MediaBlocks::read(uint32_t block) {
  auto read = std::make_shared<Read>();
  read->request.block = block;
  read->request.scratch = seams_.scratch;
  read->request.pool = seams_.scratch ? seams_.scratch : seams_.pool;
  Result<std::vector<columnar::RangeRequest>> ranges = source_->reader->media_ranges(read->request);
  if (!ranges.ok()) return finish(block, ranges.status());
  ++probe_->blocks_read;
  read->begin_ns = seams_.clock->now_ns();
  read->pieces.resize(ranges->size());
  read->outstanding += ranges->size();
  for (size_t i = 0; i < ranges->size(); ++i) {
    const columnar::RangeRequest& range = (*ranges)[i];
    const model::ShardEntry& shard = source_->manifest.shards[range.shard];
    seams_.storage->read({shard.uri, range.offset, range.size_bytes, shard.fingerprint}, cancel_,
                         [self = shared_from_this(), read, i](Result<runtime::Bytes> bytes) {
                           if (bytes.ok()) {
                             self->probe_->read_bytes += bytes->size;
                             read->pieces[i] = std::move(*bytes);
                           } else if (!read->failed.exchange(true)) {
                             read->failure = bytes.status();
                           }
                           if (--read->outstanding == 0) self->decode(read);
                         });
  }
  if (--read->outstanding == 0) decode(read);
}

void MediaBlocks::decode(const std::shared_ptr<Read>& read) {
  const int64_t read_ns = seams_.clock->now_ns();
  probe_->read_wait_ns += static_cast<uint64_t>(read_ns - read->begin_ns);
  if (runtime::tracing()) {
    runtime::TraceBook::of_process().note("read", source_->spec.name, read->begin_ns, read_ns);
  }
  seams_.executor->post([self = shared_from_this(), read] {
    Result<DecodedBlobsPtr> blobs =
        read->failed ? Result<DecodedBlobsPtr>(read->failure) : self->decoded(*read);
    read->pieces.clear();
    self->seams_.on_loop([self, block = read->request.block, blobs = std::move(blobs)] {
      if (!self->stopped_) self->finish(block, blobs);
    });
  });
}

Result<DecodedBlobsPtr> MediaBlocks::decoded(const Read& read) const {
  if (cancel_.cancelled()) return Status(Code::kCancelled, "the loader was stopped");
  const int64_t begin_ns = seams_.clock->now_ns();
  auto out = std::make_shared<DecodedBlobs>();
  OVERLORD_TRY(out->places, source_->reader->media_places(read.request));
  OVERLORD_TRY(out->blobs, source_->reader->decode_media(read.request, read.pieces));
  for (const runtime::Bytes& blob : out->blobs) out->size_bytes += blob.size;
  for (const runtime::Bytes& piece : read.pieces) probe_->decode_in_bytes += piece.size;
  probe_->decode_out_bytes += out->size_bytes;
  const int64_t end_ns = seams_.clock->now_ns();
  probe_->decode_ns += static_cast<uint64_t>(end_ns - begin_ns);
  if (runtime::tracing()) {
    runtime::TraceBook::of_process().note("decode", source_->spec.name, begin_ns, end_ns);
  }
  return DecodedBlobsPtr(std::move(out));
}

void MediaBlocks::finish(uint32_t block, const Result<DecodedBlobsPtr>& blobs) {
  const std::vector<Done> waiting = std::exchange(waiting_[block], {});
  waiting_.erase(block);
  if (blobs.ok()) keep(block, *blobs);
  for (const Done& done : waiting) done(blobs);
}

// Where the host's budget has room, else it is let go: it can be read again (law 11).
void MediaBlocks::keep(uint32_t block, const DecodedBlobsPtr& blobs) {
  const uint64_t size = blobs->size_bytes;
  if (size > budget_->limit_bytes) return;
  while (budget_->used_bytes.load() + size > budget_->limit_bytes && !recent_.empty()) {
    forget(kept_.find(recent_.back()));
  }
  if (budget_->used_bytes.load() + size > budget_->limit_bytes) {
    seams_.reclaim();  // others hold it all; what they do not use comes free for the next block
    return;
  }
  budget_->used_bytes += size;
  probe_->buffer.take(size);
  recent_.push_front(block);
  kept_[block] = {blobs, true, recent_.begin()};
}

void MediaBlocks::forget(std::map<uint32_t, Kept>::iterator kept) {
  budget_->used_bytes -= kept->second.blobs->size_bytes;
  probe_->buffer.let_go(kept->second.blobs->size_bytes);
  recent_.erase(kept->second.recent);
  kept_.erase(kept);
}

void MediaBlocks::shed() {
  for (auto it = kept_.begin(); it != kept_.end();) {
    const auto current = it++;
    if (!std::exchange(current->second.used, false)) forget(current);
  }
}

}  // namespace overlord::loader
