#include "engine/machine/gpu_probe.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "tests/scratch_directory.h"

namespace spillway {
namespace {

class GpuProbeTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = root_ / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  void AddPci(const std::string& address, const std::string& vendor, const std::string& kind) {
    Write("sys/bus/pci/devices/" + address + "/vendor", vendor + "\n");
    Write("sys/bus/pci/devices/" + address + "/class", kind + "\n");
  }

  ScratchDirectory root_;
};

TEST_F(GpuProbeTest, AMachineWithoutOneHasNone) {
  EXPECT_FALSE(HasNvidiaGpu(root_.path()));
  AddPci("0000:00:02.0", "0x8086", "0x030000");  // another vendor's display
  AddPci("0000:01:00.1", "0x10de", "0x040300");  // sound
  EXPECT_FALSE(HasNvidiaGpu(root_.path()));
}

TEST_F(GpuProbeTest, OnTheBusItIsFoundWithoutADriver) {
  AddPci("0000:00:02.0", "0x8086", "0x030000");
  AddPci("0000:17:00.0", "0x10de", "0x030200");
  EXPECT_TRUE(HasNvidiaGpu(root_.path()));
}

TEST_F(GpuProbeTest, InAContainerItsDeviceOrDriverTells) {
  Write("dev/nvidia0", "");
  EXPECT_TRUE(HasNvidiaGpu(root_.path()));
  std::filesystem::remove_all(root_ / "dev");
  EXPECT_FALSE(HasNvidiaGpu(root_.path()));
  Write("proc/driver/nvidia/version", "NVRM version\n");
  EXPECT_TRUE(HasNvidiaGpu(root_.path()));
}

}  // namespace
}  // namespace spillway
