// Files of a model, for tests: weights cut into pieces that lie anywhere.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "swap/store/in_place.h"

namespace spillway {

// Writes `weights` [unit] (empty: not in place) into three files below `directory`, in pieces of a
// byte to all of it, in any order and at any offset, the last of a file up to its end. Of runs of
// at least 64 zeros every second is left out.
inline InPlaceUnits WriteModelFiles(const std::string& directory,
                                    const std::vector<std::string>& weights, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::filesystem::create_directories(directory);
  InPlaceUnits places;
  places.units.resize(weights.size());
  struct Cut {
    size_t unit;
    uint64_t begin, bytes;
  };
  std::vector<Cut> cuts;
  for (size_t unit = 0; unit < weights.size(); ++unit) {
    const std::string& all = weights[unit];
    for (uint64_t at = 0; at < all.size();) {
      const uint64_t most[] = {40, 5000, 20000, all.size()};
      uint64_t bytes = std::min<uint64_t>(1 + random() % most[random() % 4], all.size() - at);
      const uint64_t zeros = std::min(all.find_first_not_of('\0', at), all.size()) - at;
      const bool left_out = zeros >= 64 && random() % 2;
      if (zeros >= 64) bytes = zeros;
      // What is longer ends where zeros begin, mostly.
      const uint64_t next = all.find(std::string(64, '\0'), at);
      if (next != std::string::npos && next > at && random() % 4)
        bytes = std::min(bytes, next - at);
      if (!left_out) cuts.push_back({unit, at, bytes});
      at += bytes;
    }
  }
  std::shuffle(cuts.begin(), cuts.end(), random);
  std::vector<std::string> contents(3);
  for (const Cut& cut : cuts) {
    const uint32_t file = random() % contents.size();
    std::string& to = contents[file];
    to.append(random() % 3 ? random() % 100 : 0, 'x');
    places.units[cut.unit].push_back(
        {file, to.size(), cut.bytes, cut.begin, absl::StrCat("tensor.", cut.unit, ".", cut.begin)});
    to += weights[cut.unit].substr(cut.begin, cut.bytes);
  }
  for (auto& pieces : places.units) {
    std::sort(pieces.begin(), pieces.end(),
              [](const FilePiece& a, const FilePiece& b) { return a.unit_offset < b.unit_offset; });
  }
  for (size_t i = 0; i < contents.size(); ++i) {
    const std::string path = absl::StrCat(directory, "/model-", i, ".safetensors");
    std::ofstream(path, std::ios::binary) << contents[i];
    places.files.push_back({path, contents[i].size()});
  }
  return places;
}

}  // namespace spillway
