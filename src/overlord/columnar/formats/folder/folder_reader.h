// Folders of media files, one folder for each label: every file is a row, and the name of its
// folder is its text, as torchvision and Hugging Face's imagefolder have it. A folder is a shard;
// its fingerprint is of the names and sizes of the files in it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/model/source.h"
#include "overlord/runtime/seams.h"

namespace overlord::columnar {

// The text column of such a source.
inline constexpr std::string_view kLabelColumn = "label";

// The folders in and below `uri`, itself included, that have files of the source's media; sorted.
Result<std::vector<std::string>> expand_folders(runtime::Storage& storage,
                                                const model::Source& source,
                                                const std::string& uri);
// What a folder is now.
Result<runtime::FileInfo> stat_folder(runtime::Storage& storage, const model::Source& source,
                                      const std::string& uri);

Result<ShardPart> index_folder_shard(const ShardJob& job);

Result<std::unique_ptr<BlockReader>> make_folder_reader(std::shared_ptr<const IndexFile> file,
                                                        const model::Source& source);

}  // namespace overlord::columnar
