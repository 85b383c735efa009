#include "engine/base/keyed_hash.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace spillway {
namespace {

std::string HexOf(const std::string& bytes) { return absl::BytesToHexString(bytes); }

// FIPS 180-4's examples, and texts around the sizes at which the padding takes a block more.
TEST(KeyedHash, Sha256IsTheStandards) {
  EXPECT_EQ(HexOf(Sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexOf(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexOf(Sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(HexOf(Sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  // python3 -c "import hashlib; print(hashlib.sha256(b'x' * N).hexdigest())"
  EXPECT_EQ(HexOf(Sha256(std::string(55, 'x'))),
            "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  EXPECT_EQ(HexOf(Sha256(std::string(64, 'x'))),
            "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
}

// RFC 4231, cases 1, 2, 3 and 6: the last key is longer than a block.
TEST(KeyedHash, HmacIsTheStandards) {
  EXPECT_EQ(HexOf(HmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(HexOf(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(HexOf(HmacSha256(std::string(20, '\xaa'), std::string(50, '\xdd'))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(HexOf(HmacSha256(std::string(131, '\xaa'),
                             "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(KeyedHash, SecretsAreComparedWhole) {
  EXPECT_TRUE(SameSecretBytes("", ""));
  EXPECT_TRUE(SameSecretBytes("abc", "abc"));
  EXPECT_FALSE(SameSecretBytes("abc", "abd"));
  EXPECT_FALSE(SameSecretBytes("xbc", "abc"));
  EXPECT_FALSE(SameSecretBytes("ab", "abc"));
}

TEST(KeyedHash, NobodyForeseesBytes) {
  EXPECT_EQ(UnforeseeableBytes(32).size(), 32);
  EXPECT_NE(UnforeseeableBytes(32), UnforeseeableBytes(32));
}

}  // namespace
}  // namespace spillway
