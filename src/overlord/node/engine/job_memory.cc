#include "overlord/node/job_memory.h"

#include <sys/mman.h>
#include <unistd.h>

namespace overlord::node {

Result<transport::Descriptor> job_in_memory(const protocol::JobFile& job) {
  const std::string bytes = protocol::encode_job_file(job);
  transport::Descriptor memory(memfd_create("overlord-job", MFD_CLOEXEC));
  if (!memory.valid()) return Status(Code::kResource, "memfd_create: no memory for the job");
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = write(memory.get(), bytes.data() + written, bytes.size() - written);
    if (count <= 0) return Status(Code::kResource, "memfd: the job does not fit");
    written += static_cast<size_t>(count);
  }
  return memory;
}

}  // namespace overlord::node
