// Media that rows name by a path: files beside their shard, below the folder that a field's `root`
// names, or members of the tar that it names. A row must not reach outside of it, whatever it says.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/media.h"
#include "overlord/model/source.h"
#include "overlord/runtime/seams.h"

namespace overlord::columnar {

// `path` relative to the directory of `shard_uri`. kBadData says why it is refused: absolute paths,
// URIs, `..`, empty parts, control bytes.
Result<std::string> beside_shard(const std::string& shard_uri, std::string_view path);

// The folder that a field's paths are relative to, with its slash: its root's, else the shard's.
std::string folder_of_paths(const model::MediaField& field, const std::string& shard_uri);
bool is_tar_root(const model::MediaField& field);

// Where a path leads: to a file, or to a member of one.
struct NamedFile {
  runtime::FileInfo file;
  bool is_member = false;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

// A tar that a field has as its root, by the names of its members.
struct TarRoot {
  struct Member {
    uint64_t offset = 0;
    uint64_t size_bytes = 0;
  };
  runtime::FileInfo file;
  std::map<std::string, Member, std::less<>> members;
};
using TarRoots = std::map<std::string, TarRoot>;  // by URI

// All that the source's fields have, each by its headers.
Result<TarRoots> read_tar_roots(runtime::Storage& storage, const model::Source& source,
                                const runtime::CancelToken& cancel);

// A path of a row as it was looked at while indexing.
struct NamedBlob {
  std::string fault;  // what is wrong with it, or empty
  NamedFile file;
  BlobNote note;
};

// Finds the file that a path names and lets the probe look at it. A Status where the store fails.
// Thread-safe.
Result<NamedBlob> look_at_path(const ShardJob& job, const MediaNotes& notes, size_t field,
                               std::string_view path);

}  // namespace overlord::columnar
