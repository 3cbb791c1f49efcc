#include "overlord/columnar/formats/arrow/saved_dataset.h"

#include "overlord/columnar/formats/arrow/arrow_writer_test.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {
namespace {

class SavedDataset : public ::testing::Test {
 protected:
  void put_state(const std::string& json) { storage_.put("mem:/set/state.json", json); }

  void refuses(const std::string& uri, const std::string& reason) {
    const auto index = build(storage_, arrow_source(uri));
    ASSERT_FALSE(index.ok()) << reason;
    EXPECT_TRUE(contains(index.status().message(), reason)) << index.status().message();
    EXPECT_TRUE(contains(index.status().message(), "source 'hub'")) << index.status().message();
  }

  runtime::MemoryStorage storage_;
};

TEST_F(SavedDataset, ShardsKeepTheOrderOfTheDirectory) {
  put_state(R"({"_data_files": [{"filename": "b.arrow"}, {"filename": "a.arrow"}],
                "_fingerprint": "x", "_split": null, "_indices_files": []})");
  storage_.put("mem:/set/a.arrow", ipc_bytes(*text_table({"a0", "a1"})));
  storage_.put("mem:/set/b.arrow", ipc_bytes(*text_table({"b0"})));
  for (const char* uri : {"mem:/set", "mem:/set/"}) {
    const auto index = build(storage_, arrow_source(uri));
    ASSERT_TRUE(index.ok()) << index.status().message();
    EXPECT_EQ(read_all(storage_, **index)->texts, (std::vector<std::string>{"b0", "a0", "a1"}));
    EXPECT_TRUE((*index)->verify(storage_).ok());
  }
  put_state(R"({"_data_files": [{"filename": "b.arrow"}, {"filename": "b.arrow"}]})");
  refuses("mem:/set", "lists shard 'mem:/set/b.arrow' twice");
}

TEST_F(SavedDataset, WhatIsNoSingleTableIsRefused) {
  refuses("mem:/set/", "is no directory that save_to_disk wrote");
  storage_.put("mem:/set/dataset_dict.json", R"({"splits": ["train", "test"]})");
  refuses("mem:/set/", "several splits ('train', 'test'); name one of these directories in it");
  put_state(R"({"_data_files": [{"filename": "a.arrow"}],
                "_indices_data_files": [{"filename": "indices.arrow"}]})");
  refuses("mem:/set", "flatten_indices()");
  put_state(R"({"_data_files": [{"filename": "../a.arrow"}]})");
  refuses("mem:/set", "leads out of it");
  put_state(R"({"_data_files": []})");
  refuses("mem:/set", "the dataset is empty");
  put_state(R"({"_data_files": [1]})");
  refuses("mem:/set", "without `filename`");
  put_state(R"([])");
  refuses("mem:/set", "is no JSON object");
  put_state("");
  refuses("mem:/set", "is no JSON object");
}

}  // namespace
}  // namespace overlord::columnar
