#include "engine/run/run_record.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RunRecord, ReadsBackWhateverTheNamesHold) {
  RunRecord record = ThisProcess();
  EXPECT_GT(record.process, 0);
  EXPECT_FALSE(record.host.empty());
  record.output = "/a path\nwith a line's end\n\n";
  record.run = "0123456789abcdef";
  const auto back = DecodeRunRecord(EncodeRunRecord(record));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->process, record.process);
  EXPECT_EQ(back->host, record.host);
  EXPECT_EQ(back->boot, record.boot);
  EXPECT_EQ(back->process_ids, record.process_ids);
  EXPECT_EQ(back->since_seconds, record.since_seconds);
  EXPECT_EQ(back->output, record.output);
  EXPECT_EQ(back->run, record.run);
}

TEST(RunRecord, HalfATextIsNone) {
  const std::string text = EncodeRunRecord(ThisProcess());
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(DecodeRunRecord(text.substr(0, length)).has_value()) << length;
  }
  EXPECT_FALSE(DecodeRunRecord("4711 on node7\n").has_value());
  EXPECT_FALSE(DecodeRunRecord("process x\nsince 1\n\n").has_value());
}

TEST(RunRecord, AProcessElsewhereIsSaidToBeElsewhere) {
  RunRecord here;
  here.host = "here";
  here.boot = "b";
  here.process_ids = "pid:[1]";
  RunRecord holder = here;
  holder.process = 17;
  EXPECT_THAT(DescribeHolder(holder, here), Not(HasSubstr("another")));
  holder.process_ids = "pid:[2]";
  EXPECT_THAT(DescribeHolder(holder, here), HasSubstr("in another container"));
  holder.boot = "c";
  EXPECT_THAT(DescribeHolder(holder, here), HasSubstr("another machine"));
}

}  // namespace
}  // namespace spillway
