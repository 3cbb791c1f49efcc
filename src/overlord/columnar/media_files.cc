#include "overlord/columnar/media_files.h"

#include <algorithm>
#include <utility>

#include "overlord/columnar/formats/tar/tar_scan.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;

constexpr uint64_t kTarWindowBytes = 64 << 10;  // headers lie apart; bodies are stepped over

// Why a path cannot be used, or empty.
std::string path_fault(std::string_view path) {
  if (path.empty()) return "is empty";
  if (path.front() == '/' || path.find("://") != std::string_view::npos) return "is absolute";
  // A backslash or a glob letter would mean something else to some store.
  const auto odd = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == '\x7f' || c == '\\';
  };
  if (std::any_of(path.begin(), path.end(), odd)) return "has a byte no file name has";
  for (size_t at = 0; at <= path.size();) {
    const size_t slash = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, slash - at);
    if (part == "..") return "leads out of it";
    if (part.empty() || part == ".") return "has an empty part";
    at = slash + 1;
  }
  return {};
}

Status refused(std::string_view path, const std::string& fault, const char* relative_to) {
  return bad_data("path " + quote(path, 200) + " " + fault + "; it must be relative to " +
                  relative_to);
}

Result<TarRoot> read_tar(runtime::Storage& storage, const std::string& uri,
                         const runtime::CancelToken& cancel) {
  TarRoot tar;
  OVERLORD_TRY(tar.file, storage.stat(uri));
  TarScanner scanner(0, [&](const TarMember& member) {
    std::string_view name = member.name;
    while (name.starts_with("./")) name.remove_prefix(2);
    // A name that comes again is the newer version of the file, as tar has it.
    tar.members[std::string(name)] = {member.offset, member.size_bytes};
    return Status();
  });
  const uint64_t size = tar.file.fingerprint.size_bytes;
  while (scanner.next() < size) {
    if (cancel.cancelled()) return Status(Code::kCancelled, "was cancelled");
    const uint64_t at = scanner.next();
    OVERLORD_TRY(const runtime::Bytes bytes,
                 storage.read_blocking(
                     {uri, at, std::min(kTarWindowBytes, size - at), tar.file.fingerprint}));
    OVERLORD_RETURN_IF_ERROR(scanner.add(std::string_view(bytes.data, bytes.size), at));
  }
  OVERLORD_RETURN_IF_ERROR(scanner.finish(size));
  return tar;
}

// The file of a path that is no member of a tar; kNotFound: there is none.
Result<NamedFile> find_file(const ShardJob& job, const model::MediaField& field,
                            std::string_view path) {
  OVERLORD_TRY(const runtime::FileInfo info,
               job.storage->stat(folder_of_paths(field, job.file.uri) + std::string(path)));
  return NamedFile{info, false, 0, info.fingerprint.size_bytes};
}

Result<NamedFile> find_member(const ShardJob& job, const model::MediaField& field,
                              std::string_view path) {
  const TarRoot& tar = job.tars->at(field.root);
  const auto found = tar.members.find(path);
  if (found == tar.members.end()) return not_found("no such member");
  return NamedFile{tar.file, true, found->second.offset, found->second.size_bytes};
}

}  // namespace

Result<std::string> beside_shard(const std::string& shard_uri, std::string_view path) {
  const std::string fault = path_fault(path);
  if (!fault.empty()) return refused(path, fault, "the directory of its shard");
  return shard_uri.substr(0, shard_uri.rfind('/') + 1) + std::string(path);
}

std::string folder_of_paths(const model::MediaField& field, const std::string& shard_uri) {
  return field.root.empty() ? shard_uri.substr(0, shard_uri.rfind('/') + 1) : field.root;
}

bool is_tar_root(const model::MediaField& field) {
  return !field.root.empty() && field.root.back() != '/';
}

Result<TarRoots> read_tar_roots(runtime::Storage& storage, const model::Source& source,
                                const runtime::CancelToken& cancel) {
  TarRoots roots;
  for (const model::MediaField& field : source.media) {
    if (!is_tar_root(field) || roots.contains(field.root)) continue;
    auto tar = read_tar(storage, field.root, cancel);
    if (!tar.ok()) {
      return tar.status().with_context("source " + quote(source.name) + ", media " +
                                       quote(field.name) + ", root " + quote(field.root));
    }
    roots.emplace(field.root, std::move(*tar));
  }
  return roots;
}

Result<NamedBlob> look_at_path(const ShardJob& job, const MediaNotes& notes, size_t field,
                               std::string_view path) {
  const model::MediaField& declared = job.source->media[field];
  const std::string where = "media " + quote(declared.name) + ": ";
  NamedBlob blob;
  const std::string fault = path_fault(path);
  if (!fault.empty()) {
    const char* relative_to =
        declared.root.empty() ? "the directory of its shard" : "the field's root";
    blob.fault = where + refused(path, fault, relative_to).message();
    return blob;
  }
  Result<NamedFile> found =
      is_tar_root(declared) ? find_member(job, declared, path) : find_file(job, declared, path);
  if (!found.ok()) {
    // A file that is not there is a fault of its row; a store that does not answer is not.
    if (found.status().code() != Code::kNotFound) return found.status();
    blob.fault = where + "no file " + quote(path, 200) +
                 (declared.root.empty() ? " beside the shard" : " in " + quote(declared.root));
    return blob;
  }
  blob.file = std::move(*found);
  const NamedFile& file = blob.file;
  const uint64_t head_bytes = std::min<uint64_t>(notes.head_bytes(true), file.size_bytes);
  runtime::Bytes head;
  if (head_bytes > 0) {
    OVERLORD_TRY(head, job.read(file.file, file.offset, head_bytes));
  }
  const auto read = [&](BlobRange range) {
    return job.read(file.file, file.offset + range.offset, range.size_bytes);
  };
  OVERLORD_TRY(blob.note,
               notes.look(field, {std::string_view(head.data, head.size), file.size_bytes, read}));
  return blob;
}

}  // namespace overlord::columnar
