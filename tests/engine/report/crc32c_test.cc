#include "engine/report/crc32c.h"

#include <string>

#include "gtest/gtest.h"

namespace spillway {
namespace {

// RFC 3720, B.4, and the check value that catalogues of CRCs give.
TEST(Crc32c, GivesTheKnownValues) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending.push_back(static_cast<char>(i));
  EXPECT_EQ(Crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(Crc32c(std::string(ascending.rbegin(), ascending.rend())), 0x113FDB5Cu);
}

// Rotation and constant of TFRecord: of a CRC of 0 only the constant stays.
TEST(Crc32c, MaskRotatesAndAdds) {
  EXPECT_EQ(MaskedCrc32c(""), 0xA282EAD8u);
  const uint32_t crc = 0xE3069283u;
  EXPECT_EQ(MaskedCrc32c("123456789"), (crc >> 15 | crc << 17) + 0xA282EAD8u);
}

}  // namespace
}  // namespace spillway
