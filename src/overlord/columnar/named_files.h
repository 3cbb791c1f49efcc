// Files that rows name, looked at block by block while their shard is indexed: what is kept of each
// goes to the shard's part.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/columnar/media.h"
#include "overlord/columnar/media_files.h"

namespace overlord::columnar {

class NamedFiles {
 public:
  NamedFiles(const ShardJob& job, ShardPart* part) : job_(job), part_(part), notes_(job, part) {}

  // The rows of the next block, whose numbers in the shard begin at `first_row`. `kept`: what the
  // block keeps already. A row whose files cannot be used becomes a bad row; a Status where the
  // store fails.
  Status add(uint64_t first_row, std::string_view kept, std::vector<NamedMedia>* rows);
  // Gives the part its block extras.
  void finish();

 private:
  struct Look {
    size_t row = 0;
    size_t field = 0;
    std::string path;
    BlobPart part = {};
    std::optional<Result<NamedBlob>> answer = std::nullopt;
  };

  void ask(NamedMedia& named, size_t row, std::vector<Look>* looks) const;
  Result<std::string> add_row(std::string fault, std::span<const Look> looks);
  Result<std::string> add_blob(const Look& look, ByteWriter* places);

  const ShardJob& job_;
  ShardPart* const part_;
  MediaNotes notes_;
  ByteWriter extras_;
  std::vector<uint64_t> ends_;
};

}  // namespace overlord::columnar
