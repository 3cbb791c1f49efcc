#include "overlord/columnar/formats/tar/tar_scan.h"

#include <gtest/gtest.h>

#include "overlord/base/rng.h"
#include "overlord/columnar/formats/tar/foreign_tar_test.h"
#include "overlord/columnar/formats/tar/tar_writer_test.h"

namespace overlord::columnar {
namespace {

struct Scanned {
  std::vector<TarMember> members;
  Status status;
};

Scanned scan(const std::string& bytes) {
  Scanned out;
  TarScanner scanner(0, [&](const TarMember& member) -> Status {
    out.members.push_back(member);
    return {};
  });
  out.status = scanner.add(bytes, 0);
  if (out.status.ok()) out.status = scanner.finish(bytes.size());
  return out;
}

TEST(TarScan, NamesOfAllKinds) {
  const std::string longest(300, 'n');
  TarWriter tar;
  tar.add("plain.txt", "one");
  tar.add_gnu_long(longest + ".txt", "two");
  tar.add_pax(TarWriter::record("path", "../" + longest + ".txt"), "short.txt", "three");
  tar.prefix = "some/where";
  tar.add("deep.txt", "four");
  tar.prefix = "";
  tar.wide_size = true;
  tar.add("/absolute.txt", "five");
  const Scanned out = scan(tar.finished());
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  std::vector<std::string> names, bodies;
  const std::string bytes = tar.finished();
  for (const TarMember& member : out.members) {
    names.push_back(member.name);
    bodies.push_back(bytes.substr(member.offset, member.size_bytes));
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"plain.txt", longest + ".txt", "../" + longest + ".txt",
                                      "some/where/deep.txt", "/absolute.txt"}));
  EXPECT_EQ(bodies, (std::vector<std::string>{"one", "two", "three", "four", "five"}));
}

TEST(TarScan, OnlyRegularFilesAreMembers) {
  TarWriter tar;
  tar.add("folder.d/", "", '5');
  tar.add("link.txt", "", '2');
  tar.add("old/", "", '\0');
  tar.add("a.txt", "text", '\0');
  tar.add("b.txt", "text", '7');
  const Scanned out = scan(tar.finished());
  ASSERT_TRUE(out.status.ok()) << out.status.message();
  ASSERT_EQ(out.members.size(), 2u);
  EXPECT_EQ(out.members[0].name, "a.txt");
}

TEST(TarScan, RefusesWhatItCannotRead) {
  TarWriter tar;
  tar.add("a.txt", std::string(600, 'x'));
  const std::string whole = tar.finished();
  EXPECT_TRUE(scan(tar.bytes).status.ok()) << "whoever indexes it looks for the end mark";
  const auto told = [](const std::string& bytes) { return scan(bytes).status.message(); };
  EXPECT_TRUE(contains(told(whole.substr(0, 700)), "cut short: the member 'a.txt'"));
  EXPECT_TRUE(contains(told(whole.substr(0, 300)), "cut short inside of a header"));
  EXPECT_TRUE(contains(told(""), "is empty"));
  EXPECT_TRUE(contains(told(std::string(2000, 'g')), "is no tar file"));
  EXPECT_TRUE(contains(told(tar.bytes + std::string(512, 'g')), "garbage"));
  EXPECT_TRUE(contains(told(whole + whole), "behind its end mark at offset"));
  TarWriter sparse;
  sparse.add("s.txt", "x", 'S');
  EXPECT_TRUE(contains(told(sparse.finished()), "sparse"));
  TarWriter broken;
  broken.add_pax("99 path=x\n", "a.txt", "x");
  EXPECT_TRUE(contains(told(broken.finished()), "broken pax"));
}

TEST(TarScan, KeysAreThoseOfWebdataset) {
  const auto split = [](const char* name) -> std::string {
    const auto found = split_sample_name(name);
    return found ? std::string(found->key) + "|" + found->extension : "none";
  };
  EXPECT_EQ(split("a.txt"), "a|txt");
  EXPECT_EQ(split("d.x/a.seg.PNG"), "d.x/a|seg.png");
  EXPECT_EQ(split("../a.txt"), "../a|txt");
  EXPECT_EQ(split("noext"), "none");
  EXPECT_EQ(split("d.x/noext"), "none");
  EXPECT_EQ(split(".hidden"), "none");
  EXPECT_EQ(split("d/.hidden"), "d/|hidden");
  EXPECT_EQ(split("d.x/.hidden"), "none");
  EXPECT_EQ(split("__meta__"), "none");
  EXPECT_EQ(split("__meta__/a.txt"), "none");
}

// The smoke run of tar_fuzz.cc: a good archive with bytes changed, cut and doubled.
TEST(TarScan, AnyBytesAreRowsOrAnError) {
  TarWriter tar;
  for (int i = 0; i < 4; ++i) {
    tar.add(std::to_string(i) + ".txt", "text");
    tar.add(std::to_string(i) + ".jpg", std::string(700, 'j'));
  }
  tar.add_gnu_long(std::string(150, 'k') + ".txt", "text");
  tar.add_pax(TarWriter::record("path", "p.txt"), "q.txt", "text");
  const std::string good = tar.finished();
  uint64_t drawn = 0;
  const auto next = [&] { return random_u64(11, drawn++); };
  for (int round = 0; round < 400; ++round) {
    std::string bytes = good;
    for (uint64_t i = next() % 4; i > 0; --i) {
      const size_t at = next() % bytes.size();
      bytes[at] = static_cast<char>(next());
      // Most changes are found by the checksum: mend it, so that what lies behind is reached.
      std::string header = bytes.substr(at / 512 * 512, 512);
      if (next() % 2 == 0 && header.size() == 512) {
        TarWriter::seal(&header);
        bytes.replace(at / 512 * 512, 512, header);
      }
    }
    if (next() % 4 == 0) bytes.resize(next() % bytes.size());
    takes_tar(bytes);
  }
}

}  // namespace
}  // namespace overlord::columnar
