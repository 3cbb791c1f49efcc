// Which files of a folder are rows: those right in it whose suffix a media field names.
#include "overlord/columnar/formats/folder/folder_files.h"

#include <algorithm>
#include <optional>
#include <set>

#include "overlord/base/bytes.h"
#include "overlord/base/hash.h"
#include "overlord/columnar/formats/folder/folder_reader.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;

constexpr uint64_t kMostFiles = 20'000'000;  // below one folder that is listed

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

bool is_hidden(std::string_view name) { return name.starts_with('.') || name.starts_with('_'); }

// The media field of a file, by its suffix.
std::optional<size_t> field_of(const model::Source& source, std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || is_hidden(name)) return std::nullopt;
  const std::string suffix = lower(name.substr(dot + 1));
  for (size_t field = 0; field < source.media.size(); ++field) {
    for (const std::string& wanted : source.media[field].from) {
      if (suffix == wanted) return field;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<FolderFile>> folder_files(runtime::Storage& storage, const model::Source& source,
                                             const std::string& folder) {
  OVERLORD_TRY(const std::vector<runtime::ListedFile> listed,
               storage.list_folder(folder, kMostFiles));
  std::vector<FolderFile> files;
  for (const runtime::ListedFile& file : listed) {
    std::string name = file.uri.substr(folder.size());
    if (name.find('/') != std::string::npos) continue;
    if (const auto field = field_of(source, name)) {
      files.push_back({std::move(name), *field, file.size_bytes});
    }
  }
  return files;
}

Result<std::vector<std::string>> expand_folders(runtime::Storage& storage,
                                                const model::Source& source,
                                                const std::string& uri) {
  const std::string root = uri.ends_with('/') ? uri : uri + "/";
  OVERLORD_TRY(const std::vector<runtime::ListedFile> listed,
               storage.list_folder(root, kMostFiles));
  std::set<std::string> folders;
  for (const runtime::ListedFile& file : listed) {
    const size_t slash = file.uri.rfind('/');
    // What lies in a hidden folder is nobody's, as with patterns.
    const std::string below = file.uri.substr(root.size() - 1, slash + 1 - (root.size() - 1));
    if (below.find("/.") != std::string::npos) continue;
    if (field_of(source, std::string_view(file.uri).substr(slash + 1))) {
      folders.insert(file.uri.substr(0, slash + 1));
    }
  }
  if (!folders.empty()) return std::vector<std::string>(folders.begin(), folders.end());
  std::string suffixes;
  for (const model::MediaField& field : source.media) {
    for (const std::string& name : field.from) suffixes += (suffixes.empty() ? "." : ", .") + name;
  }
  return not_found("no file below " + quote(root) + " ends with " + suffixes);
}

Result<runtime::FileInfo> stat_folder(runtime::Storage& storage, const model::Source& source,
                                      const std::string& uri) {
  OVERLORD_TRY(const std::vector<FolderFile> files, folder_files(storage, source, uri));
  if (files.empty()) return not_found("folder " + quote(uri) + " has no files of the source");
  ByteWriter names;
  runtime::FileInfo info;
  info.uri = uri;
  for (const FolderFile& file : files) {
    names.text(file.name);
    names.u64(file.size_bytes);
    info.fingerprint.size_bytes += file.size_bytes;
  }
  info.fingerprint.content = hash64(names.bytes().data(), names.size());
  return info;
}

}  // namespace overlord::columnar
