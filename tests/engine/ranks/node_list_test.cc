#include "engine/ranks/node_list.h"

namespace spillway {
namespace {

using testing::ElementsAre;

TEST(NodeList, ExpandsAsSlurmWritesThem) {
  const auto expanded = [](absl::string_view list) { return *ExpandNodeList(list); };
  EXPECT_THAT(expanded("node7"), ElementsAre("node7"));
  EXPECT_THAT(expanded("node[01-03,07],gpu5"),
              ElementsAre("node01", "node02", "node03", "node07", "gpu5"));
  EXPECT_THAT(expanded("a,b.example.org,c-1"), ElementsAre("a", "b.example.org", "c-1"));
  EXPECT_THAT(expanded("n[9-11]"), ElementsAre("n9", "n10", "n11"));
  EXPECT_THAT(expanded("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
  EXPECT_THAT(expanded("rack[1-2]n[3,5]-ib"),
              ElementsAre("rack1n3-ib", "rack1n5-ib", "rack2n3-ib", "rack2n5-ib"));
  EXPECT_EQ(expanded("n[1-65536]").size(), 65536u);
}

TEST(NodeList, RefusesWhatIsNone) {
  for (const char* list : {"",
                           ",",
                           "a,",
                           "n[",
                           "n[1",
                           "n[]",
                           "n1]",
                           "n[1-]",
                           "n[-1]",
                           "n[3-1]",
                           "n[1-2-3]",
                           "n[a-b]",
                           "n[1,]",
                           "n[[1]",
                           "n[1-65537]",
                           "n[1-300][1-300]",
                           "n[1-4294967295]",
                           "n[99999999999]",
                           "n]m[1-2]",
                           "n[1]m]",
                           "a,n[1-65536]"}) {
    EXPECT_EQ(ExpandNodeList(list).status().code(), absl::StatusCode::kInvalidArgument) << list;
  }
}

TEST(NodeList, RefusesNamesThatNoHostHas) {
  const std::string zeros(70000, '0');
  std::string brackets;
  for (int i = 0; i < 40000; ++i) brackets += "[1]";
  // Written out, 4 GiB; and more calls in one another than a stack has room for.
  for (const std::string& list :
       {absl::StrCat("n[", zeros, "1-", zeros, "65000]"), "n" + brackets, std::string(300, 'n'),
        absl::StrCat(std::string(200, 'n'), "[1-2]", std::string(200, 'n'))}) {
    const auto expanded = ExpandNodeList(list);
    ASSERT_EQ(expanded.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_LT(expanded.status().message().size(), 200u);
  }
  EXPECT_EQ(ExpandNodeList(std::string(255, 'n'))->front().size(), 255u);
}

TEST(NodeList, TasksOfEachNode) {
  EXPECT_THAT(*ExpandTasksPerNode("2"), ElementsAre(2));
  EXPECT_THAT(*ExpandTasksPerNode("2(x3),1"), ElementsAre(2, 2, 2, 1));
  for (const char* list : {"", "0", "x", "2(x3", "2(x)", "2(x99999999)", "2,,1", "2(3)", "-1"}) {
    EXPECT_EQ(ExpandTasksPerNode(list).status().code(), absl::StatusCode::kInvalidArgument) << list;
  }
}

}  // namespace
}  // namespace spillway
