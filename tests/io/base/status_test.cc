#include "io/base/status.h"

#include <cerrno>

#include "absl/strings/cord.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

TEST(ErrnoStatus, MapsEachErrnoToItsCode) {
  const struct {
    int error;
    absl::StatusCode code;
  } table[] = {
      {ENOSPC, absl::StatusCode::kResourceExhausted},
      {EDQUOT, absl::StatusCode::kResourceExhausted},
      {EACCES, absl::StatusCode::kPermissionDenied},
      {EPERM, absl::StatusCode::kPermissionDenied},
      {ENOENT, absl::StatusCode::kNotFound},
      {EEXIST, absl::StatusCode::kAlreadyExists},
      {EINVAL, absl::StatusCode::kInvalidArgument},
      {EIO, absl::StatusCode::kUnavailable},
      {ENOTDIR, absl::StatusCode::kFailedPrecondition},
      {EISDIR, absl::StatusCode::kFailedPrecondition},
      {ELOOP, absl::StatusCode::kFailedPrecondition},
      {ENAMETOOLONG, absl::StatusCode::kFailedPrecondition},
      {EXDEV, absl::StatusCode::kUnknown},
  };
  for (const auto& row : table)
    EXPECT_EQ(ErrnoStatus(row.error, "x").code(), row.code) << row.error;
}

TEST(ErrnoStatus, NeverMeansWrongBytes) {
  for (int error = 1; error < 140; ++error) {
    const absl::Status status = ErrnoStatus(error, "x");
    EXPECT_FALSE(status.ok()) << error;
    EXPECT_FALSE(absl::IsDataLoss(status)) << error;
  }
}

TEST(ErrnoStatus, SaysWhatHappenedToWhatAndWhatToDo) {
  EXPECT_EQ(ErrnoStatus(ENOSPC, "open /nvme/run/data-0").message(),
            "open /nvme/run/data-0: No space left on device (ENOSPC); free some space there, or "
            "name a path on another filesystem");
  // What is to be made needs a parent; what is to be read is there, or not.
  EXPECT_EQ(ErrnoStatus(ENOENT, "open a/x").message(),
            "open a/x: No such file or directory (ENOENT); check the path");
  EXPECT_THAT(std::string(ErrnoStatus(ENOENT, "create a/x").message()),
              HasSubstr("check the path: its parent must exist"));
  EXPECT_THAT(std::string(ErrnoStatus(99999, "open x").message()), HasSubstr("errno 99999"));
}

TEST(WrongBytesError, IsDataLoss) {
  EXPECT_TRUE(absl::IsDataLoss(WrongBytesError("tile 3")));
  EXPECT_EQ(WrongBytesError("tile 3").message(), "tile 3");
}

TEST(Annotate, KeepsCodeAndPayload) {
  absl::Status status = absl::DataLossError("inner");
  status.SetPayload("url", absl::Cord("payload"));
  const absl::Status annotated = Annotate(status, "outer");
  EXPECT_EQ(annotated.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(annotated.message(), "outer: inner");
  ASSERT_TRUE(annotated.GetPayload("url").has_value());
  EXPECT_EQ(*annotated.GetPayload("url"), "payload");
  EXPECT_TRUE(Annotate(absl::OkStatus(), "outer").ok());
}

}  // namespace
}  // namespace spillway
