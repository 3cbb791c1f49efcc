#include "overlord/columnar/index/reader_factory.h"

#include "overlord/columnar/formats/arrow/arrow_reader.h"
#include "overlord/columnar/formats/csv/csv_reader.h"
#include "overlord/columnar/formats/folder/folder_reader.h"
#include "overlord/columnar/formats/jsonl/jsonl_reader.h"
#include "overlord/columnar/formats/mds/mds_reader.h"
#include "overlord/columnar/formats/megatron/megatron_files.h"
#include "overlord/columnar/formats/parquet/parquet_reader.h"
#include "overlord/columnar/formats/rows/row_numbers.h"
#include "overlord/columnar/formats/tar/tar_reader.h"
#include "overlord/columnar/formats/tokens/raw_tokens.h"
#include "overlord/columnar/formats/tokens/token_reader.h"

namespace overlord::columnar {

Result<ShardPart> index_shard(const ShardJob& job) {
  switch (job.source->format) {
    case model::Format::kMegatron:
      return index_megatron_shard(job);
    case model::Format::kJsonl:
      return index_jsonl_shard(job);
    case model::Format::kParquet:
      return index_parquet_shard(job);
    case model::Format::kWebdataset:
      return index_tar_shard(job);
    case model::Format::kArrow:
      return index_arrow_shard(job);
    case model::Format::kTokens:
      return index_raw_tokens_shard(job);
    case model::Format::kMds:
      return index_mds_shard(job);
    case model::Format::kCsv:
      return index_csv_shard(job);
    case model::Format::kFolder:
      return index_folder_shard(job);
    case model::Format::kRows:
      return index_row_numbers(job);
  }
  return job.error("unknown format", Code::kInvalidArgument);
}

Result<std::unique_ptr<BlockReader>> make_reader(std::shared_ptr<const IndexFile> file,
                                                 const model::Source& source) {
  switch (source.format) {
    case model::Format::kMegatron:
    case model::Format::kTokens:
      return make_token_reader(std::move(file), source);
    case model::Format::kJsonl:
      return make_jsonl_reader(std::move(file), source);
    case model::Format::kParquet:
      return make_parquet_reader(std::move(file), source);
    case model::Format::kWebdataset:
      return make_tar_reader(std::move(file), source);
    case model::Format::kArrow:
      return make_arrow_reader(std::move(file), source);
    case model::Format::kMds:
      return make_mds_reader(std::move(file), source);
    case model::Format::kCsv:
      return make_csv_reader(std::move(file), source);
    case model::Format::kFolder:
      return make_folder_reader(std::move(file), source);
    case model::Format::kRows:
      return make_row_numbers_reader(std::move(file), source);
  }
  return invalid_argument("unknown format of source '" + source.name + "'");
}

}  // namespace overlord::columnar
