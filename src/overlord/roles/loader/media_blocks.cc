#include "overlord/roles/loader/media_blocks.h"

#include <atomic>
#include <optional>
#include <span>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/runtime/trace.h"

namespace overlord::loader {

std::span<const runtime::Bytes> DecodedBlobs::of(uint32_t row, size_t field, size_t fields) const {
  const size_t list = row * fields + field;
  const size_t begin = list == 0 ? 0 : places.ends[list - 1];
  OVERLORD_CHECK(field < fields && list < places.ends.size() && places.ends[list] >= begin &&
                     places.ends[list] <= blobs.size(),
                 "blobs of a row and field");
  return std::span(blobs).subspan(begin, places.ends[list] - begin);
}

struct MediaBlocks::Read {
  columnar::BlockRequest request;
  std::vector<runtime::Bytes> pieces;
  std::atomic<size_t> outstanding{1};  // one extra until all are asked for
  int64_t begin_ns = 0;
  std::optional<BlockInWork> in_work;
  std::atomic<bool> failed{false};
  Status failure;  // written once, by whoever set `failed`
};

MediaBlocks::MediaBlocks(std::shared_ptr<const OpenSource> source,
                         std::shared_ptr<PayloadBudget> budget, LoaderSeams seams,
                         LoaderProbe* probe)
    : source_(std::move(source)),
      seams_(std::move(seams)),
      probe_(probe),
      kept_(std::move(budget), probe) {}

void MediaBlocks::stop() {
  stopped_ = true;
  cancel_.cancel();
  kept_.clear();
}

void MediaBlocks::load(uint32_t block, Done done) {
  if (const DecodedBlobsPtr kept = kept_.use(block)) return done(kept);
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
  read->in_work.emplace(probe_);
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
                           OVERLORD_CHECK(read->outstanding > 0, "a range arrives once");
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
  OVERLORD_CHECK(out->blobs.size() == out->places.blobs.size(), "a place for every blob");
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
  if (blobs.ok() && !kept_.keep(block, *blobs, (*blobs)->size_bytes)) {
    seams_.reclaim();  // what others do not use comes free for the next block
  }
  for (const Done& done : waiting) done(blobs);
}

}  // namespace overlord::loader
