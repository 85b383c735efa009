#include "swap/device/memory_nodes.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "swap/device/arena.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class MemoryNodes : public testing::Test {
 protected:
  void AddNode(const std::string& name, const std::string& processors) {
    std::filesystem::create_directory(directory_ / name);
    std::ofstream(absl::StrCat(directory_ / name, "/cpulist")) << processors << "\n";
  }

  std::vector<int> Of(std::initializer_list<int> processors) const {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int processor : processors) CPU_SET(processor, &set);
    return NodesOf(set, directory_ / "");
  }

  const ScratchDirectory directory_;
};

TEST_F(MemoryNodes, AreThoseOfTheProcessors) {
  AddNode("node0", "0-3,8-11");
  AddNode("node1", "4-7,12");
  AddNode("node10", "13");
  AddNode("node2", "");  // memory alone
  std::ofstream(directory_ / "online") << "0-2,10\n";
  EXPECT_THAT(Of({0, 11}), ElementsAre(0));
  EXPECT_THAT(Of({7}), ElementsAre(1));
  EXPECT_THAT(Of({13, 12, 3}), ElementsAre(0, 1, 10));
  EXPECT_THAT(Of({}), IsEmpty());
}

TEST_F(MemoryNodes, ThatAreWrittenOtherwiseAreNone) {
  EXPECT_THAT(NodesOf(cpu_set_t(), directory_ / "missing"), IsEmpty());
  AddNode("node-1", "0");
  AddNode("node1024", "0");
  AddNode("nodes", "0");
  AddNode("node3", "all");
  AddNode("node4", "0-99999999999");
  EXPECT_THAT(Of({0}), ElementsAre(4));
}

TEST(MemoryNodesOfThisMachine, AreFoundWhereItTellsThem) {
  const std::string directory = "/sys/devices/system/node";
  cpu_set_t processors;
  ASSERT_EQ(sched_getaffinity(0, sizeof(processors), &processors), 0);
  if (!std::filesystem::exists(directory + "/node0/cpulist")) {
    GTEST_SKIP() << directory << " tells no nodes";
  }
  EXPECT_FALSE(NodesOf(processors, directory).empty());
}

// What the kernel has noted: the policy, and the first 64 nodes.
std::pair<int, unsigned long> PolicyOf(const char* data) {
  int policy = -1;
  unsigned long nodes[16] = {};
  EXPECT_EQ(syscall(SYS_get_mempolicy, &policy, nodes, 1024, data, MPOL_F_ADDR), 0)
      << std::strerror(errno);
  return {policy, nodes[0]};
}

TEST_F(MemoryNodes, PagesAreDealtOut) {
  int policy;
  if (syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) != 0) {
    GTEST_SKIP() << "this kernel knows no memory nodes";
  }
  auto arena = Arena::Create(4 << 20, nullptr);
  ASSERT_TRUE(arena.ok());
  char* const data = (*arena)->data();
  DealOut(data, 2 << 20, {0});
  const std::pair<int, unsigned long> dealt_out = {MPOL_INTERLEAVE, 1};
  EXPECT_EQ(PolicyOf(data), dealt_out);
  EXPECT_EQ(PolicyOf(data + (2 << 20) - 1), dealt_out);
  EXPECT_EQ(PolicyOf(data + (2 << 20)).first, int{MPOL_DEFAULT});
}

}  // namespace
}  // namespace spillway
