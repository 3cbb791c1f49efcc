// MediaBlocks: blobs that lie inside something compressed (Parquet row groups, compressed tars).
// They cannot be read one by one, so a block's are decoded together and kept as long as the
// host's payload budget allows: the rows of a shuffle window want them one after the other. On one
// role's loop; never blocks it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/roles/loader/kept_blocks.h"
#include "overlord/roles/loader/probe.h"
#include "overlord/roles/loader/role.h"

namespace overlord::loader {

// All blobs of a block that had to be decoded; others are empty.
struct DecodedBlobs {
  columnar::MediaPlaces places;
  std::vector<runtime::Bytes> blobs;  // parallel to places.blobs
  uint64_t size_bytes = 0;

  // The blobs of one row and field, in order.
  std::span<const runtime::Bytes> of(uint32_t row, size_t field, size_t fields) const;
};
using DecodedBlobsPtr = std::shared_ptr<const DecodedBlobs>;

class MediaBlocks : public std::enable_shared_from_this<MediaBlocks> {
 public:
  MediaBlocks(std::shared_ptr<const OpenSource> source, std::shared_ptr<PayloadBudget> budget,
              LoaderSeams seams, LoaderProbe* probe);

  // Calls back on the loop, at once where the block is kept; exactly once unless stopped.
  using Done = std::function<void(const Result<DecodedBlobsPtr>&)>;
  void load(uint32_t block, Done done);
  // Drops what nobody has used since the last call.
  void shed() { kept_.shed(); }
  void stop();

 private:
  struct Read;  // one read in progress

  void read(uint32_t block);
  void decode(const std::shared_ptr<Read>& read);
  Result<DecodedBlobsPtr> decoded(const Read& read) const;
  void finish(uint32_t block, const Result<DecodedBlobsPtr>& blobs);

  std::shared_ptr<const OpenSource> source_;
  LoaderSeams seams_;
  LoaderProbe* probe_;
  runtime::CancelToken cancel_;
  KeptBlocks<DecodedBlobsPtr> kept_;
  std::map<uint32_t, std::vector<Done>> waiting_;  // one read serves all who wait for it
  bool stopped_ = false;
};

}  // namespace overlord::loader
