// The worked example of docs/FORMATS.md is what the code writes.
#include <string>

#include "gtest/gtest.h"
#include "tests/swap/store/store_fixture.h"

namespace spillway {
namespace {

// The store that the document describes: zeros everywhere, committed twice.
std::string ExampleManifest() {
  ScratchDirectory a, b;
  const StateLayout layout({{"embedding", 5000}, {"head", 100}},
                           {{Plane::kWeight, 2}, {Plane::kResidual, 2}}, 2, 4096);
  auto store = SwapStore::Create(layout, {.directories = {a.path(), b.path()}});
  EXPECT_TRUE(store.ok()) << store.status();
  for (uint64_t step : {11, 12}) {
    for (int unit = 0; unit < layout.num_units(); ++unit) {
      for (int tile = 0; tile < layout.NumTiles(unit); ++tile) {
        std::vector<uint64_t> checksums;
        for (int plane = 0; plane < layout.num_planes(); ++plane) {
          const std::string zeros(layout.PlaneBytes(unit, tile, plane), '\0');
          checksums.push_back(Checksum((*store)->PlaneIdentity(unit, tile, plane, step),
                                       zeros.data(), zeros.size()));
        }
        (*store)->RecordWrite(unit, tile, 0, checksums, step);
      }
    }
    const absl::Status status =
        (*store)->Commit(a / "manifest", {.step = step, .engine_state = "{\"samples\":96}"});
    EXPECT_TRUE(status.ok()) << status;
  }
  Manifest manifest = *DecodeManifest(*ReadSmallFile(a / "manifest"), "manifest");
  manifest.files[0].path = "/nvme0/run/rank-0/tiles";
  manifest.files[1].path = "/nvme1/run/rank-0/tiles";
  return *EncodeManifest(manifest);
}

TEST(FormatsDocument, TheWorkedExampleIsWhatTheCodeWrites) {
  auto document = ReadSmallFile(absl::StrCat(SPILLWAY_SOURCE_DIR, "/docs/FORMATS.md"));
  ASSERT_TRUE(document.ok()) << document.status();
  const std::string example = ExampleManifest();
  const std::string block = absl::StrCat("```text\n", example, "```\n");
  EXPECT_NE(document->find(block), std::string::npos)
      << "docs/FORMATS.md does not hold this block:\n"
      << block;
}

}  // namespace
}  // namespace spillway
