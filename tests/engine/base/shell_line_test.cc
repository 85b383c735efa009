#include "engine/base/shell_line.h"

#include "gtest/gtest.h"

namespace spillway {
namespace {

TEST(ShellLine, WordsAreQuotedWhereAShellWouldChangeThem) {
  EXPECT_EQ(ShellLine({"mpirun", "-x", "A=b", "a b", "it's", "", "$HOME", "a{rank}"}),
            "mpirun -x A=b 'a b' 'it'\\''s' '' '$HOME' 'a{rank}'");
}

}  // namespace
}  // namespace spillway
