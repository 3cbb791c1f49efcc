#include "overlord/storage/lead_claims.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "overlord/runtime/quote.h"
#include "overlord/storage/journal_folder.h"

namespace overlord::storage {
namespace {

using runtime::quote;

constexpr std::string_view kClaim = "lead-";
constexpr std::string_view kMark = "mark-";
constexpr uint32_t kClaimsKept = 4;
// A claim is a keeper's generation, and each has so many generations of groups that no more fit.
constexpr uint32_t kMostClaims = 60'000;

Status unfit(const std::string& folder, const std::string& what) {
  return {Code::kResource,
          "journal folder " + quote(folder) + " " + what +
              ": hosts that may lead need one folder on a file system that makes a file for one of "
              "them alone, keeps what is synced, and shows it to all at once (NFS: mount with "
              "actimeo=0 or noac); set runtime.journal to such a one, or give runtime.wire.planner "
              "one address"};
}

std::string name_of(uint32_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "%s%08u", std::string(kClaim).c_str(), number);
  return text;
}

Result<std::vector<std::string>> names_in(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (!entries) return journal_error(folder, {"cannot list its folder", errno});
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(entries.get())) {
    names.emplace_back(entry->d_name);
    errno = 0;
  }
  if (errno != 0) return journal_error(folder, {"cannot list its folder", errno});
  return names;
}

uint32_t number_in(const std::string& name) {
  if (!name.starts_with(kClaim)) return 0;
  const auto number =
      static_cast<uint32_t>(std::strtoul(name.c_str() + kClaim.size(), nullptr, 10));
  return name_of(number) == name ? number : 0;
}

}  // namespace

Result<LeadClaims> LeadClaims::open(const std::string& folder, const std::string& drawn,
                                    FileOperations& operations) {
  const std::filesystem::path above = std::filesystem::path(folder).parent_path();
  std::error_code error;
  if (!std::filesystem::is_directory(above, error)) {
    return unfit(above.string(), "is not there on this host");
  }
  OVERLORD_RETURN_IF_ERROR(prepare_journal_folder(above.string(), operations));
  OVERLORD_RETURN_IF_ERROR(prepare_journal_folder(folder, operations));
  LeadClaims claims(folder, &operations);
  OVERLORD_RETURN_IF_ERROR(claims.try_out(drawn));
  return claims;
}

// What one host alone can see of it.
Status LeadClaims::try_out(const std::string& drawn) const {
  const std::string name = std::string(kMark) + drawn;
  const std::string path = folder_ + "/" + name;
  const int failed = make(name, "tried out");
  const int again = make(name, "tried out");
  operations_->remove(path);
  if (failed != 0) return journal_error(path, {"cannot make or sync a file", failed});
  if (again != EEXIST) return unfit(folder_, "makes a file that is there already");
  return {};
}

int LeadClaims::make(const std::string& name, const std::string& text) const {
  int fd = -1;
  if (const int error = operations_->create(folder_ + "/" + name, &fd); error != 0) return error;
  size_t wrote = 0;
  int error = operations_->write(fd, text, 0, &wrote);
  if (error == 0 && wrote != text.size()) error = ENOSPC;
  if (error == 0) error = operations_->sync(fd);
  ::close(fd);
  return error == 0 ? operations_->sync_folder(folder_) : error;
}

Result<LeadClaim> LeadClaims::newest() const {
  OVERLORD_TRY(const std::vector<std::string> names, names_in(folder_));
  LeadClaim out;
  for (const std::string& name : names) out.number = std::max(out.number, number_in(name));
  if (out.number == 0) return out;
  std::ifstream file(folder_ + "/" + name_of(out.number));
  out.holder = {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return out;
}

Result<bool> LeadClaims::claim(uint32_t number, const std::string& holder) const {
  if (number > kMostClaims) {
    return bad_data("journal folder " + quote(folder_) + " has seen " +
                    std::to_string(kMostClaims) + " leads; remove it between two runs");
  }
  const int error = make(name_of(number), holder);
  if (error == EEXIST) return false;
  if (error != 0) return journal_error(folder_ + "/" + name_of(number), {"cannot claim", error});
  for (uint32_t old = number; old > kClaimsKept; --old) {
    if (operations_->remove(folder_ + "/" + name_of(old - kClaimsKept)) != 0) break;
  }
  return true;
}

Result<std::string> LeadClaims::leave_mark(const std::string& name) const {
  const std::string mark = std::string(kMark) + name;
  if (const int failed = make(mark, name); failed != 0) {
    return journal_error(folder_ + "/" + mark, {"cannot make or sync a file", failed});
  }
  return mark;
}

Status LeadClaims::see_mark(const std::string& name) const {
  const std::string path = folder_ + "/" + name;
  if (!name.starts_with(kMark) || name.find('/') != std::string::npos) {
    return bad_data("not a mark: " + quote(name));
  }
  OVERLORD_TRY(const std::vector<std::string> names, names_in(folder_));
  bool seen = false;
  for (const std::string& one : names) seen = seen || one == name;
  const int again = make(name, "made again");
  operations_->remove(path);
  if (!seen) return unfit(folder_, "does not show what another host has made there just now");
  if (again != EEXIST) return unfit(folder_, "makes a file that another host has made already");
  return {};
}

}  // namespace overlord::storage
