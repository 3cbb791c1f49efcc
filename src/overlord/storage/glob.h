// Glob over the local file system: `*`, `?` and `**` (any number of directories), sorted bytewise.
// Only regular files match. Links to directories are followed by name, never by `**` (no cycles).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/runtime/seams.h"

namespace overlord::storage {

bool is_glob(std::string_view pattern);
bool glob_matches(std::string_view pattern, std::string_view name);  // one path component

// A match is never empty (kNotFound). Marker and checksum files (names starting with `_` or `.`,
// or ending in .crc, .md5, .sha256) under a pattern that names no extension are refused with their
// names: what to read must be said, not guessed. `*.ext` leaves hidden files out, like a shell.
Result<std::vector<std::string>> expand_glob(const std::string& pattern);

// The names that a pattern with braces stands for, in its order: `{a,b}` for each, `{000..127}` for
// every number (`{0..100..10}`: every tenth) or letter, inside each other and beside each other.
// `\{`, `\}` and, within braces, `\,` are the characters themselves. Without braces: itself.
Result<std::vector<std::string>> expand_braces(const std::string& pattern);

// What `list_one` says of each name that a pattern stands for; sorted, each once. One that matches
// nothing is kNotFound by its name: what a pattern counts out has to be there.
using ListOne = std::function<Result<std::vector<std::string>>(const std::string& name)>;
Result<std::vector<std::string>> list_alternatives(const std::string& pattern,
                                                   const ListOne& list_one);

// The names of a listing that a pattern means, by the same rules; sorted. `pattern` and `names` are
// relative to the same place.
Result<std::vector<std::string>> match_glob(const std::string& pattern,
                                            const std::vector<std::string>& names);

// All regular files in and below a folder with their sizes, sorted bytewise; links to folders are
// not followed. kNotFound: there is none. More than `most` are refused.
Result<std::vector<runtime::ListedFile>> files_below(const std::string& folder, uint64_t most);

}  // namespace overlord::storage
