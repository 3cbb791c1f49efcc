// NodeRestart: what a node was started with, in the file `restart` of its directory, so that any of
// its ranks can start it again when it has died: the words of its command line, the job, the cores
// that it runs on and the file that it prints to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/status.h"

namespace overlord::node {

struct NodeRestart {
  std::string executable;
  std::string job_digest;
  std::vector<std::string> words;  // OPTION=VALUE
  std::string job;                 // encode_job_file
  std::vector<uint32_t> cores;     // empty: wherever it may
  std::string log;                 // empty: where the starter prints

  OVERLORD_FIELDS(executable, job_digest, words, job, cores, log)
};

// Of this process: its cores and its log.
NodeRestart restart_of(std::string executable, std::string job_digest,
                       std::vector<std::string> words, std::string job);
Status leave_restart(const std::string& directory, const NodeRestart& restart);
// kNotFound: a node that has ended in good order, or that somebody else starts again.
Result<NodeRestart> find_restart(const std::string& directory);

// Starts the node of a directory again if nobody has. True: this call has; false: another process
// has the lock: a node lives, or is being started.
Result<bool> start_node_again(const std::string& directory);

}  // namespace overlord::node
