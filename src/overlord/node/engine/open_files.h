// From index files on disk to an OpenJob: the shards are compared with the manifest before the
// first batch, and a changed one is refused by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/host/open_job.h"
#include "overlord/roles/loader/block_loads.h"
#include "overlord/runtime/seams.h"
#include "overlord/storage/open_storage.h"

namespace overlord::node {

// What reads the files of all sources.
Result<std::unique_ptr<runtime::Storage>> open_storage_of(const model::JobSpec& spec,
                                                          storage::StorageOptions options);

// `index_paths` in the order of spec.sources.
Result<std::shared_ptr<const host::OpenJob>> open_files(model::JobSpec spec,
                                                        model::DeliverySpec delivery,
                                                        model::Mesh mesh,
                                                        const std::vector<std::string>& index_paths,
                                                        runtime::Storage& storage);

// One block read and decoded on the caller's thread, tokenised where it holds text. For inspection
// and for planning without an engine.
Result<columnar::RowBlock> read_block(const loader::OpenSource& source, runtime::Storage& storage,
                                      uint32_t block);
Result<loader::TokenBlockPtr> read_tokens(const loader::OpenSource& source,
                                          runtime::Storage& storage, runtime::TextEncoder* encoder,
                                          uint32_t block);

}  // namespace overlord::node
