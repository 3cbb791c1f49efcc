#include "overlord/columnar/formats/folder/folder_reader.h"

#include <algorithm>
#include <span>
#include <utility>

#include "overlord/base/bytes.h"
#include "overlord/columnar/formats/folder/folder_files.h"
#include "overlord/columnar/index/indexed_reader.h"
#include "overlord/columnar/kept_places.h"
#include "overlord/columnar/media_files.h"
#include "overlord/columnar/named_files.h"
#include "overlord/columnar/text_rules.h"

namespace overlord::columnar {
namespace {

// The last part of "/data/pets/cat/".
std::string_view label_of(std::string_view folder) {
  folder.remove_suffix(1);
  return folder.substr(folder.rfind('/') + 1);
}

class FolderReader final : public IndexedReader {
 public:
  FolderReader(std::shared_ptr<const IndexFile> file, const model::Source& source)
      : IndexedReader(std::move(file), source) {}

  Result<std::vector<RangeRequest>> ranges(const BlockRequest& request) const override {
    OVERLORD_RETURN_IF_ERROR(check_request(request));
    return std::vector<RangeRequest>();  // the rows are names, which the index has
  }

  Result<RowBlock> decode(const BlockRequest& request,
                          const std::vector<runtime::Bytes>& pieces) const override {
    OVERLORD_RETURN_IF_ERROR(check_request(request));
    OVERLORD_RETURN_IF_ERROR(check_pieces(request, {}, pieces));
    const model::BlockEntry& entry = block(request.block);
    const std::string_view label = label_of(file_->shards()[entry.shard].uri);
    RowBlock rows;
    rows.is_text = true;
    for (uint32_t row = 0; row < entry.rows; ++row) {
      if (!is_valid_utf8(label) || is_blank(label)) {
        rows.text.bad.push_back({row, reason(request.block, row, "its folder's name is no text")});
      } else {
        rows.text.rows.bytes += label;
      }
      rows.text.rows.ends.push_back(rows.text.rows.bytes.size());
    }
    return rows;
  }

  Result<MediaPlaces> media_places(const BlockRequest& request) const override {
    OVERLORD_RETURN_IF_ERROR(check_request(request));
    const model::BlockEntry& entry = block(request.block);
    ByteReader extra(file_->block_extra(request.block));
    MediaPlaces places;
    if (!read_media_rows(&extra, file_->shards()[entry.shard], entry.rows, source_.media,
                         &places) ||
        !extra.at_end()) {
      return block_error(request.block, "index is damaged (files); run `overlord index`");
    }
    return wanted_places(std::move(places), source_.media.size(), request.rows);
  }
};

}  // namespace

Result<ShardPart> index_folder_shard(const ShardJob& job) {
  ShardPart part;
  part.entry.uri = job.file.uri;
  part.entry.fingerprint = job.file.fingerprint;
  OVERLORD_TRY(const std::vector<FolderFile> files,
               folder_files(*job.storage, *job.source, job.file.uri));
  NamedFiles named(job, &part);
  for (size_t first = 0; first < files.size();) {
    OVERLORD_RETURN_IF_ERROR(job.check_cancelled());
    const size_t count = std::min<size_t>(job.options->block_rows, files.size() - first);
    std::vector<NamedMedia> rows(count);
    for (size_t i = 0; i < count; ++i) {
      rows[i].paths.resize(job.source->media.size());
      rows[i].paths[files[first + i].field].push_back(files[first + i].name);
    }
    part.entry.rows += count;
    OVERLORD_RETURN_IF_ERROR(named.add(first, {}, &rows));
    part.blocks.push_back({first, static_cast<uint32_t>(count), 0, first, count});
    first += count;
  }
  named.finish();
  // Folders of equal names and sizes differ by their own name.
  const std::string_view label = label_of(job.file.uri);
  part.scanned = hash64(label.data(), label.size(), job.file.fingerprint.content);
  return part;
}

Result<std::unique_ptr<BlockReader>> make_folder_reader(std::shared_ptr<const IndexFile> file,
                                                        const model::Source& source) {
  return std::unique_ptr<BlockReader>(std::make_unique<FolderReader>(std::move(file), source));
}

}  // namespace overlord::columnar
