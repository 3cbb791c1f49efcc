#include "overlord/protocol/job_codec.h"

#include <gtest/gtest.h>

#include "overlord/protocol/fields/job_fields.h"
#include "overlord/protocol/fields/random_fields_test.h"

namespace overlord::protocol {
namespace {

JobFile random_job(uint64_t seed) {
  RandomFields random(seed);
  auto job = random.make<JobFile>();
  job.mesh =
      model::Mesh::make({{"pp", 2}, {"dp", 3}, {"x", 1 + static_cast<uint32_t>(seed % 4)}}).value();
  job.ranks = {0, 2, 5};
  const size_t sources = job.spec.sources.size();
  job.spec.mixture.max_passes.resize(sources);
  job.index_paths.resize(sources);
  return job;
}

TEST(JobFile, SurvivesARoundTrip) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const JobFile job = random_job(seed);
    const std::string bytes = encode_job_file(job);
    const auto decoded = decode_job_file(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    EXPECT_EQ(encode_job_file(*decoded), bytes);
    EXPECT_EQ(config_digest(decoded->spec), config_digest(job.spec));
    EXPECT_EQ(decoded->mesh.digest(), job.mesh.digest());
    EXPECT_EQ(decoded->ranks, job.ranks);
    EXPECT_EQ(decoded->index_paths, job.index_paths);
    EXPECT_EQ(decoded->worker_command, job.worker_command);
    EXPECT_EQ(decoded->runtime.reporters, job.runtime.reporters);
    EXPECT_EQ(decoded->spec.sources.back().workers, job.spec.sources.back().workers);
    EXPECT_EQ(decoded->state, job.state);
  }
}

TEST(JobFile, ADefaultJobSurvivesToo) {
  JobFile job;
  job.spec.sources.resize(1);
  job.index_paths.resize(1);
  const auto decoded = decode_job_file(encode_job_file(job));
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(config_digest(decoded->spec), config_digest(job.spec));
}

TEST(JobFile, EveryTruncationAndEveryFlippedBitIsRefused) {
  const std::string bytes = encode_job_file(random_job(1));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_job_file(std::string_view(bytes).substr(0, size)).ok());
  }
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(decode_job_file(damaged).ok()) << "bit " << bit;
  }
}

TEST(JobFile, WhatDoesNotFitTogetherIsRefused) {
  const auto refused = [](auto damage) {
    JobFile job = random_job(2);
    damage(&job);
    const auto decoded = decode_job_file(encode_job_file(job));
    return !decoded.ok() && decoded.status().code() == Code::kBadData;
  };
  EXPECT_TRUE(refused([](JobFile* job) { job->index_paths.emplace_back(); }));
  EXPECT_TRUE(refused([](JobFile* job) { job->ranks = {2, 1}; }));
  EXPECT_TRUE(refused([](JobFile* job) { job->ranks = {100}; }));
}

TEST(JobFile, ANewerFormatIsRefusedByBothVersions) {
  std::string bytes = encode_job_file(random_job(1));
  bytes[4] = kJobFileFormat + 1;
  const auto decoded = decode_job_file(bytes);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.status().code(), Code::kVersionMismatch);
  EXPECT_NE(decoded.status().message().find("format " + std::to_string(kJobFileFormat + 1)),
            std::string::npos);
}

// The bytes are a format: who changes them raises kJobFileFormat and this.
TEST(JobFile, BytesAreGolden) {
  EXPECT_EQ(digest_of(encode_job_file(random_job(3))).hex(), "4c1fcf2bbf383950640b63d4ca02acd5");
}

}  // namespace
}  // namespace overlord::protocol
