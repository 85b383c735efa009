#include "engine/ranks/hostfile.h"

#include "absl/strings/str_cat.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using testing::ElementsAre;

void RefusedFile(absl::string_view text, const std::vector<std::string>& parts) {
  ExpectError(ParseHostfile(text, "hosts").status(), absl::StatusCode::kInvalidArgument, parts);
}

TEST(Hostfile, ReadsDeepSpeedsLines) {
  const auto hosts = ParseHostfile(
      "# the cluster\n\nworker-1 slots=4\r\n  worker-2\tslots=2  # half of it\n10.0.0.7 slots=1",
      "hosts");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  ASSERT_EQ(hosts->size(), 3u);
  EXPECT_EQ((*hosts)[0].host, "worker-1");
  EXPECT_EQ((*hosts)[0].slots, 4);
  EXPECT_EQ((*hosts)[1].host, "worker-2");
  EXPECT_EQ((*hosts)[1].slots, 2);
  EXPECT_EQ((*hosts)[2].host, "10.0.0.7");
}

TEST(Hostfile, AByteOrderMarkIsNoPartOfAHost) {
  const auto hosts = ParseHostfile(
      "\xef\xbb\xbf"
      "me@node_1.lan slots=2\n",
      "hosts");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(hosts->front().host, "me@node_1.lan");
}

TEST(Hostfile, WhatOpenMpiWouldStartAtMostIsPassedOver) {
  for (const char* most : {"max_slots=4", "max-slots=2"}) {
    const auto hosts = ParseHostfile(absl::StrCat("a slots=2 ", most, "\n"), "hosts");
    ASSERT_TRUE(hosts.ok()) << hosts.status();
    ASSERT_EQ(hosts->size(), 1u);
    EXPECT_EQ(hosts->front().slots, 2);
  }
}

TEST(Hostfile, SaysWhichLineIsWrong) {
  for (const char* line : {"a",
                           "a 4",
                           "slots=4",
                           "a slots=",
                           "a slots=0",
                           "a slots=-1",
                           "a slots=x",
                           "a slots=2 max_slots=1",
                           "a slots=2 max_slots=",
                           "a slots=2 max=4",
                           "a slots=2 max_slots=4 x",
                           "--mca slots=2",
                           "-H slots=1",
                           "+n1 slots=1",
                           "me@-x slots=1",
                           "-o@a slots=1",
                           "@a slots=1",
                           "a\x1b[2J slots=1",
                           "me@ slots=2",
                           "a:2 slots=2",
                           "a,b slots=2",
                           "a slots=99999999"}) {
    RefusedFile(std::string("# hosts\n") + line + "\n", {"hosts:2: ", "HOST slots=N"});
  }
  RefusedFile("a slots=1\nb slots=1\n\na slots=2\n", {"hosts:4: a is in line 1 already"});
  RefusedFile("a slots=1048576\nb slots=1\n", {"hosts:2: ", "slots in all"});
  for (const char* text : {"", "\n", "# a slots=1\n"}) RefusedFile(text, {"hosts names no host"});
}

TEST(Hostfile, BecomesMpirunsCommand) {
  const std::vector<HostSlots> hosts = {{"a", 2}, {"b", 3}};
  EXPECT_THAT(
      *MpirunCommand(hosts, {"/bin/spillway", "train", "--hostfile", "h", "--lr", "1"}, {}, {}),
      ElementsAre("mpirun", "-n", "5", "--host", "a:2,b:3", "--bind-to", "none", "-x",
                  "MASTER_ADDR=a", "-x", "MASTER_PORT=29500", "/bin/spillway", "train", "--lr",
                  "1"));
  EXPECT_THAT(*MpirunCommand(hosts,
                             {"s", "train", "--launch", "--ranks", "3", "--hostfile=h", "--ranks=3",
                              "--resume"},
                             3, {{"MASTER_ADDR", "b-ib"}, {"MASTER_PORT", "1234"}}),
              ElementsAre("mpirun", "-n", "3", "--host", "a:2,b:3", "--bind-to", "none", "-x",
                          "MASTER_ADDR=b-ib", "-x", "MASTER_PORT=1234", "s", "train", "--resume"));
  // A secret by its name alone: a command line is no secret.
  EXPECT_THAT(
      *MpirunCommand(hosts, {"s"}, {}, {{"SPILLWAY_SECRET", "0123456789abcdef"}}),
      ElementsAre("mpirun", "-n", "5", "--host", "a:2,b:3", "--bind-to", "none", "-x",
                  "MASTER_ADDR=a", "-x", "MASTER_PORT=29500", "-x", "SPILLWAY_SECRET", "s"));
  // As whom ssh logs in is no part of the address.
  EXPECT_THAT(*MpirunCommand({{"me@a", 1}, {"b", 1}}, {"s"}, {}, {}),
              testing::IsSupersetOf({"me@a:1,b:1", "MASTER_ADDR=a"}));
  ExpectError(MpirunCommand(hosts, {"s"}, 6, {}).status(), absl::StatusCode::kInvalidArgument,
              {"--ranks 6", "5 slots"});
}

}  // namespace
}  // namespace spillway
