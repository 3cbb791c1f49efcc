#include "overlord/store/curl_library.h"

#include <dlfcn.h>

#include <string>

namespace overlord::store {
namespace {

// Signatures that stores accept, with headers of ours in them, are of this one.
constexpr unsigned kOldest = 0x075500;  // 7.85.0

template <typename Function>
bool take(void* library, const char* name, Function* to) {
  *to = reinterpret_cast<Function>(dlsym(library, name));
  return *to != nullptr;
}

bool take_all(void* library, CurlLibrary* to) {
  return take(library, "curl_easy_init", &to->easy_init) &&
         take(library, "curl_easy_cleanup", &to->easy_cleanup) &&
         take(library, "curl_easy_reset", &to->easy_reset) &&
         take(library, "curl_easy_setopt", &to->easy_set) &&
         take(library, "curl_easy_getinfo", &to->easy_get) &&
         take(library, "curl_easy_strerror", &to->easy_error) &&
         take(library, "curl_slist_append", &to->list_append) &&
         take(library, "curl_slist_free_all", &to->list_free) &&
         take(library, "curl_multi_init", &to->multi_init) &&
         take(library, "curl_multi_cleanup", &to->multi_cleanup) &&
         take(library, "curl_multi_setopt", &to->multi_set) &&
         take(library, "curl_multi_add_handle", &to->multi_add) &&
         take(library, "curl_multi_remove_handle", &to->multi_remove) &&
         take(library, "curl_multi_perform", &to->multi_perform) &&
         take(library, "curl_multi_info_read", &to->multi_info) &&
         take(library, "curl_multi_poll", &to->multi_poll) &&
         take(library, "curl_multi_wakeup", &to->multi_wakeup);
}

Result<const CurlLibrary*> load() {
  void* const library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return invalid_argument(
        "object stores cannot be read: libcurl.so.4 is not there; install libcurl4");
  }
  decltype(&curl_version_info) version_info = nullptr;
  decltype(&curl_global_init) global_init = nullptr;
  static CurlLibrary loaded;  // for the process's life, as what it points to
  if (!take(library, "curl_version_info", &version_info) ||
      !take(library, "curl_global_init", &global_init) || !take_all(library, &loaded)) {
    return invalid_argument(
        "object stores cannot be read: libcurl.so.4 lacks functions; install libcurl4 of version "
        "7.85 or newer");
  }
  const curl_version_info_data* const found = version_info(CURLVERSION_NOW);
  if (found->version_num < kOldest) {
    return invalid_argument("object stores cannot be read: libcurl is of version " +
                            std::string(found->version) + "; install 7.85 or newer");
  }
  if ((found->features & CURL_VERSION_SSL) == 0) {
    return invalid_argument(
        "object stores cannot be read: this libcurl has no TLS; install "
        "libcurl4");
  }
  // Counted by libcurl: whoever else uses it in this process is not disturbed. Never undone, since
  // threads may still be in it when the process ends.
  if (global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    return Status(Code::kResource, "libcurl could not be initialised");
  }
  return &loaded;
}

}  // namespace

Result<const CurlLibrary*> curl_library() {
  static const auto* const loaded = new Result<const CurlLibrary*>(load());
  return *loaded;
}

}  // namespace overlord::store
