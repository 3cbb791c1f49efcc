// A job in memory is whole, and no program inherits it by accident.
#include "overlord/node/engine/job_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "overlord/host/made_up_job_test.h"

namespace overlord::node {
namespace {

TEST(JobMemory, HoldsAllOfTheJobFromTheFirstByteOn) {
  protocol::JobFile job;
  job.spec.sources = {host::made_up_source("demo")};
  job.index_paths = {"demo.index"};
  job.spec.name = std::string(1 << 20, 'n');  // more than a page or a pipe takes
  job.spec.context = 8;
  job.mesh = *model::Mesh::make({{"dp", 2}});
  job.ranks = {0, 1};
  const auto memory = job_in_memory(job);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  for (const off_t position : {0, 5, 1 << 21}) {
    lseek(memory->get(), position, SEEK_SET);
    const auto read = read_job(memory->get());
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(protocol::encode_job_file(*read), protocol::encode_job_file(job));
    EXPECT_EQ(lseek(memory->get(), 0, SEEK_CUR), position)
        << "another process that reads it has the same position";
  }
}

TEST(JobMemory, OnlyWhoIsGivenItHasIt) {
  const auto memory = job_in_memory({});
  ASSERT_TRUE(memory.ok());
  EXPECT_NE(fcntl(memory->get(), F_GETFD) & FD_CLOEXEC, 0);
}

}  // namespace
}  // namespace overlord::node
