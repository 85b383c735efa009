#include "engine/machine/disk_space.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file.h"
#include "tests/swap/store/store_fixture.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

TEST(CheckSpace, SeveralThingsOnOneFileSystemAddUp) {
  ScratchDirectory folder;
  const uint64_t free_bytes = *FreeSpaceBytes(folder.path());
  const uint64_t part = free_bytes / 10 * 6;
  const SpaceNeed swap = {folder / "swap", part, "swap in A"};
  const SpaceNeed model = {folder / "out/model", part, "the model in B"};
  EXPECT_EQ(CheckSpace({swap}, {}, FileSystem::Real(), "x"), absl::OkStatus());
  EXPECT_EQ(CheckSpace({model}, {}, FileSystem::Real(), "x"), absl::OkStatus());
  const absl::Status status =
      CheckSpace({swap, model}, {}, FileSystem::Real(), "use another drive");
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  const std::string message(status.message());
  for (const char* part : {"swap in A", "the model in B", "free ", "use another drive"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
  EXPECT_THAT(message, HasSubstr(folder.path()));
  // What goes first makes room.
  EXPECT_EQ(CheckSpace({swap, model}, {{folder.path(), part, ""}}, FileSystem::Real(), "x"),
            absl::OkStatus());
}

TEST(CheckSpace, OtherFileSystemsCountForThemselves) {
  const auto elsewhere = FreeSpaceBytes("/dev/shm");
  if (!elsewhere.ok() || *elsewhere == 0) GTEST_SKIP() << "no second file system at /dev/shm";
  ScratchDirectory folder;
  const uint64_t here = *FreeSpaceBytes(folder.path());
  EXPECT_EQ(CheckSpace({{folder.path(), here / 2, "a"}, {"/dev/shm", *elsewhere / 2, "b"}}, {},
                       FileSystem::Real(), ""),
            absl::OkStatus());
  const absl::Status status =
      CheckSpace({{folder.path(), here / 2, "a"}, {"/dev/shm", *elsewhere * 2, "b"}}, {},
                 FileSystem::Real(), "");
  EXPECT_THAT(std::string(status.message()), HasSubstr("/dev/shm"));
}

}  // namespace
}  // namespace spillway
