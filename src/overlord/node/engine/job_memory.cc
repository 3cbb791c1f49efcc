#include "overlord/node/engine/job_memory.h"

#include <sys/mman.h>
#include <unistd.h>

namespace overlord::node {

Result<runtime::Descriptor> job_in_memory(const protocol::JobFile& job) {
  const std::string bytes = protocol::encode_job_file(job);
  runtime::Descriptor memory(memfd_create("overlord-job", MFD_CLOEXEC));
  if (!memory.valid()) return Status(Code::kResource, "memfd_create: no memory for the job");
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = write(memory.get(), bytes.data() + written, bytes.size() - written);
    if (count <= 0) return Status(Code::kResource, "memfd: the job does not fit");
    written += static_cast<size_t>(count);
  }
  return memory;
}

Result<protocol::JobFile> read_job(int memory) {
  std::string bytes;
  char data[65536];
  for (;;) {
    const ssize_t got = pread(memory, data, sizeof(data), static_cast<off_t>(bytes.size()));
    if (got <= 0) return protocol::decode_job_file(bytes);
    bytes.append(data, static_cast<size_t>(got));
  }
}

}  // namespace overlord::node
