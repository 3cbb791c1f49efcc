#include "overlord/node/recovery/directory_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "overlord/base/bytes.h"
#include "overlord/base/hash.h"
#include "overlord/transport/socket_directory.h"

namespace overlord::node {
namespace {

Status file_failure(const std::string& what, const std::string& path) {
  return {Code::kResource,
          "cannot " + what + " " + path + ": " + std::generic_category().message(errno)};
}

std::string sum_of(const std::string& bytes) {
  const Digest digest = digest_of(bytes);
  ByteWriter writer;
  writer.u64(digest.high);
  writer.u64(digest.low);
  return writer.take();
}

Status write_all(int file, const std::string& bytes, const std::string& path) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = write(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return file_failure("write", path);
    done += static_cast<size_t>(count);
  }
  return {};
}

}  // namespace

Status write_directory_file(const std::string& directory, const std::string& name,
                            const std::string& bytes) {
  OVERLORD_TRY(const auto at, transport::SocketDirectory::find(directory));
  const std::string fresh = name + ".new";
  const std::string path = directory + "/" + name;
  const runtime::Descriptor file(openat(
      at.descriptor(), fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return file_failure("write", path);
  OVERLORD_RETURN_IF_ERROR(write_all(file.get(), sum_of(bytes) + bytes, path));
  if (renameat(at.descriptor(), fresh.c_str(), at.descriptor(), name.c_str()) != 0) {
    return file_failure("write", path);
  }
  return {};
}

Result<std::string> read_directory_file(const std::string& directory, const std::string& name) {
  OVERLORD_TRY(const auto at, transport::SocketDirectory::find(directory));
  const std::string path = directory + "/" + name;
  const runtime::Descriptor file(
      openat(at.descriptor(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid()) {
    return errno == ENOENT ? not_found("there is no " + path) : file_failure("read", path);
  }
  std::string text;
  char data[65536];
  for (;;) {
    const ssize_t got = read(file.get(), data, sizeof(data));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_failure("read", path);
    if (got == 0) break;
    text.append(data, static_cast<size_t>(got));
  }
  const size_t head = sum_of("").size();
  std::string bytes = text.size() < head ? std::string() : text.substr(head);
  if (text.size() < head || text.substr(0, head) != sum_of(bytes)) {
    return bad_data(path + " is damaged");
  }
  return bytes;
}

}  // namespace overlord::node
