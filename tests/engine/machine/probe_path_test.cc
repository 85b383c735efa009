#include "engine/machine/probe_path.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "io/file.h"
#include "tests/io/io_testing.h"

namespace spillway {
namespace {

TEST(ProbePath, FindsWhatADirectoryOffersAndLeavesNothing) {
  ScratchDirectory scratch;
  const PathFacts facts = ProbePath(scratch.path());
  ASSERT_TRUE(facts.status.ok()) << facts.status;
  EXPECT_TRUE(facts.exists && facts.is_directory && facts.writable);
  EXPECT_EQ(facts.owner, ::geteuid());
  EXPECT_FALSE(facts.filesystem.empty());
  EXPECT_GT(facts.total_bytes, 0u);
  EXPECT_LE(facts.free_bytes, facts.total_bytes);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  // What the store's own files get there.
  const auto file = File::Open(scratch / "f", {.write = true, .create = true});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(facts.direct, (*file)->direct());
  if (facts.direct) {
    EXPECT_EQ(facts.alignment_bytes, (*file)->alignment_bytes());
  }
}

TEST(ProbePath, NamesTheFileSystemOfTheNearestMount) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no /dev/shm to write to";
  EXPECT_EQ(ProbePath("/dev/shm").filesystem, "tmpfs");
  EXPECT_EQ(ProbePath("/proc").filesystem, "proc");
  EXPECT_FALSE(ProbePath("/proc").writable);
}

TEST(ProbePath, SaysWhatIsInTheWay) {
  ScratchDirectory scratch;
  const PathFacts missing = ProbePath(scratch / "missing");
  EXPECT_FALSE(missing.exists);
  EXPECT_TRUE(absl::IsNotFound(missing.status)) << missing.status;
  std::ofstream(scratch / "file") << "x";
  const PathFacts file = ProbePath(scratch / "file");
  EXPECT_TRUE(file.exists);
  EXPECT_FALSE(file.is_directory);
}

TEST(ProbePath, AnotherUsersDirectoryIsNotWritable) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  ScratchDirectory scratch;
  EXPECT_EQ(InChild([&]() -> std::string {
              if (::chmod(scratch.path().c_str(), 0755) != 0) return "chmod failed";
              if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) return "setuid failed";
              const PathFacts facts = ProbePath(scratch.path());
              if (facts.writable) return "writable";
              if (facts.owner != 0) return "owner";
              return absl::IsPermissionDenied(facts.status) ? "" : facts.status.ToString();
            }),
            "");
}

TEST(KindOfFilesystem, KnowsWhatSwapsBadly) {
  EXPECT_EQ(KindOfFilesystem("ext4"), FilesystemKind::kDisk);
  EXPECT_EQ(KindOfFilesystem("xfs"), FilesystemKind::kDisk);
  EXPECT_EQ(KindOfFilesystem(""), FilesystemKind::kDisk);
  EXPECT_EQ(KindOfFilesystem("tmpfs"), FilesystemKind::kMemory);
  EXPECT_EQ(KindOfFilesystem("nfs4"), FilesystemKind::kNetwork);
  EXPECT_EQ(KindOfFilesystem("fuse.sshfs"), FilesystemKind::kNetwork);
  EXPECT_EQ(KindOfFilesystem("overlay"), FilesystemKind::kOverlay);
  EXPECT_EQ(KindOfFilesystem("fuse.fuse-overlayfs"), FilesystemKind::kOverlay);
}

}  // namespace
}  // namespace spillway
