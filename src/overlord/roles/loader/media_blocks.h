// MediaBlocks: blobs that lie inside something compressed (Parquet row groups, compressed tars).
// They cannot be read one by one, so a block's are decoded together and kept as long as the
// host's payload budget allows: the rows of a shuffle window want them one after the other. On one
// role's loop; never blocks it.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
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
  ~MediaBlocks();

  // Calls back on the loop, at once where the block is kept; exactly once unless stopped.
  using Done = std::function<void(const Result<DecodedBlobsPtr>&)>;
  void load(uint32_t block, Done done);
  // Drops what nobody has used since the last call.
  void shed();
  void stop();

 private:
  struct Kept {
    DecodedBlobsPtr blobs;
    bool used = true;  // since the last shed()
    std::list<uint32_t>::iterator recent;
  };
  struct Read;  // one read in progress

  void read(uint32_t block);
  void decode(const std::shared_ptr<Read>& read);
  Result<DecodedBlobsPtr> decoded(const Read& read) const;
  void finish(uint32_t block, const Result<DecodedBlobsPtr>& blobs);
  void keep(uint32_t block, const DecodedBlobsPtr& blobs);
  void forget(std::map<uint32_t, Kept>::iterator kept);

  std::shared_ptr<const OpenSource> source_;
  std::shared_ptr<PayloadBudget> budget_;
  LoaderSeams seams_;
  LoaderProbe* probe_;
  runtime::CancelToken cancel_;
  std::map<uint32_t, Kept> kept_;
  std::list<uint32_t> recent_;                     // most recently used first
  std::map<uint32_t, std::vector<Done>> waiting_;  // one read serves all who wait for it
  bool stopped_ = false;
};

}  // namespace overlord::loader
