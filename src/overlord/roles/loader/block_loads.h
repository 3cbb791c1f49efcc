// BlockLoads: the loader's way from a block number to decoded tokens: read ranges, decode on the
// CPU pool, tokenise where needed, keep what the budget allows. On one role's loop; never blocks
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/roles/loader/kept_blocks.h"
#include "overlord/roles/loader/probe.h"
#include "overlord/roles/loader/role.h"

namespace overlord::loader {

using TokenBlockPtr = std::shared_ptr<const columnar::TokenBlock>;
using BlockDone = std::function<void(Result<TokenBlockPtr>)>;

class BlockLoads : public std::enable_shared_from_this<BlockLoads> {
 public:
  BlockLoads(std::shared_ptr<const OpenSource> source, std::shared_ptr<PayloadBudget> budget,
             LoaderSeams seams, LoaderProbe* probe);

  // `rows` empty: the whole block, kept in the cache. Otherwise only these rows, not kept.
  // Calls back on the loop, exactly once unless stopped.
  void load(uint32_t block, std::vector<uint32_t> rows, BlockDone done);
  // Load a block ahead of need, if it and the next one like it would fit the budget.
  void warm(uint32_t block);
  // The same in time that nobody else wants, for a shadow; tells when it is done. False: no room.
  bool warm_in_spare_time(uint32_t block, std::function<void()> done);
  // Drops all others.
  void keep_only(const std::set<uint32_t>& blocks) { cache_.keep_only(blocks); }
  // Drop what nobody has used since the last call.
  void shed() { cache_.shed(); }
  void stop();

 private:
  struct Read;  // one read in progress

  struct WholeRead {  // serves all who wait for the block
    std::vector<BlockDone> waiting;
    bool urgent = false;  // else in spare time
  };

  bool has_room(uint32_t block) const;
  void read_whole(uint32_t block, runtime::Executor* executor);
  void read(columnar::BlockRequest request, runtime::Executor* executor, BlockDone done);
  void decode(const std::shared_ptr<Read>& read);
  void tokenise(const std::shared_ptr<Read>& read, columnar::TextBlock text);
  void count_tokens(const runtime::EncodedRows& encoded);
  void finish(const std::shared_ptr<Read>& read, Result<TokenBlockPtr> result);

  std::shared_ptr<const OpenSource> source_;
  std::shared_ptr<PayloadBudget> budget_;
  LoaderSeams seams_;
  LoaderProbe* probe_;
  runtime::CancelToken cancel_;
  KeptBlocks<TokenBlockPtr> cache_;
  std::map<uint32_t, WholeRead> whole_reads_;
  bool stopped_ = false;
};

}  // namespace overlord::loader
