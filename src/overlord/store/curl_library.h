// libcurl, loaded when the first object is asked for: only who reads from buckets needs it, and a
// wheel carries no TLS of its own. Its headers are enough to build; its ABI is one since 2006.
#pragma once

#include <curl/curl.h>

#include "overlord/base/status.h"

namespace overlord::store {

struct CurlLibrary {
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_reset) easy_reset = nullptr;
  decltype(&curl_easy_setopt) easy_set = nullptr;
  decltype(&curl_easy_getinfo) easy_get = nullptr;
  decltype(&curl_easy_strerror) easy_error = nullptr;
  decltype(&curl_slist_append) list_append = nullptr;
  decltype(&curl_slist_free_all) list_free = nullptr;
  decltype(&curl_multi_init) multi_init = nullptr;
  decltype(&curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&curl_multi_setopt) multi_set = nullptr;
  decltype(&curl_multi_add_handle) multi_add = nullptr;
  decltype(&curl_multi_remove_handle) multi_remove = nullptr;
  decltype(&curl_multi_perform) multi_perform = nullptr;
  decltype(&curl_multi_info_read) multi_info = nullptr;
  decltype(&curl_multi_poll) multi_poll = nullptr;
  decltype(&curl_multi_wakeup) multi_wakeup = nullptr;
};

// kInvalidArgument says what to install when it is not there, or older than what signs requests.
Result<const CurlLibrary*> curl_library();

}  // namespace overlord::store
