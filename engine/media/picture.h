// Pictures of 8 bits a channel: decoded from JPEG and PNG files by libjpeg-turbo and libpng, with
// the bits that Pillow makes of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace spillway {

struct Picture {
  int64_t width = 0, height = 0;
  int64_t channels = 3;         // 3: red, green and blue; 1: how bright
  std::vector<uint8_t> points;  // [height][width][channels]
};

struct PictureSize {
  int64_t width = 0, height = 0;
};

// Whether a file is taken for a picture by its name: .jpg, .jpeg or .png, in any case.
bool IsPictureName(const std::string& path);

// Of three channels. What a file is its first bytes say, not its name. A palette and shades of grey
// become colours, transparency is left aside; an orientation that a camera noted is not applied.
// kInvalidArgument names the file and the remedy: of one that is cut short or damaged, no picture,
// of 16 bits a channel, CMYK, of more than 2^25 points, or of more than 100 scans; of a progressive
// JPEG whose coefficients take more memory than 2^25 points; and of a file that is no plain one, or
// has more than 256 MiB. Decoding takes the memory of the points or of the coefficients, whichever
// are more, and a few hundred KiB. kCancelled where it goes on for 0.7 s after a signal
// (StopPatience).
absl::StatusOr<Picture> ReadPicture(const std::string& path);

// The same as far as the beginning of the file tells, which is all that is read.
absl::StatusOr<PictureSize> ReadPictureSize(const std::string& path);

// Of one channel, as Pillow's convert("L") weighs three.
Picture ToGrey(const Picture& colours);

}  // namespace spillway
