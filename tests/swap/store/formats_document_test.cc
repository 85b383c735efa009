// The worked example of docs/FORMATS.md is what the code writes.
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "swap/store/store_reader.h"
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

// And the one with a unit that is read in place: zeros, of which the first tile has been read.
std::string InPlaceManifest() {
  ScratchDirectory swap, model;
  const std::string path = model / "model.safetensors";
  std::ofstream(path) << std::string(6144, '\0');
  const StateLayout layout({{"base", 3000, /*frozen=*/true}, {"head", 100}},
                           {{Plane::kWeight, 2}, {Plane::kResidual, 2}}, 2, 2048);
  StoreOptions options;
  options.directories = {swap.path()};
  options.in_place.files = {{path, 6144}};
  options.in_place.units = {{{0, 200, 5000, 0, "base.weight"}, {0, 5200, 944, 5056, "base.bias"}}};
  auto store = SwapStore::Create(layout, options);
  EXPECT_TRUE(store.ok()) << store.status();
  std::vector<uint64_t> checksums;
  for (int plane = 0; plane < 2; ++plane) {
    const std::string zeros(4096, '\0');
    checksums.push_back(
        Checksum((*store)->PlaneIdentity(1, 0, plane, 12), zeros.data(), zeros.size()));
  }
  (*store)->RecordWrite(1, 0, 0, checksums, 12);
  const AlignedBuffer buffer = Allocate(layout.MaxTileBytes());
  EXPECT_TRUE(ReadStoreTile(**store, 0, 0, 0, 1, buffer.get()).ok());
  EXPECT_TRUE((*store)->Commit(swap / "manifest", {.step = 12, .engine_state = "{}"}).ok());
  Manifest manifest = *DecodeManifest(*ReadSmallFile(swap / "manifest"), "manifest");
  manifest.in_place.files[0].path = "/models/base/model.safetensors";
  return *EncodeManifest(manifest);
}

TEST(FormatsDocument, TheWorkedExamplesAreWhatTheCodeWrites) {
  auto document = ReadSmallFile(absl::StrCat(SPILLWAY_SOURCE_DIR, "/docs/FORMATS.md"));
  ASSERT_TRUE(document.ok()) << document.status();
  for (const std::string& example : {ExampleManifest(), InPlaceManifest()}) {
    const std::string block = absl::StrCat("```text\n", example, "```\n");
    EXPECT_NE(document->find(block), std::string::npos)
        << "docs/FORMATS.md does not hold this block:\n"
        << block;
  }
}

}  // namespace
}  // namespace spillway
