// Pictures with 8 bits per channel, decoded from JPEG and PNG by libjpeg-turbo and libpng to the
// same bits as Pillow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace spillway {

struct Picture {
  int64_t width = 0, height = 0;
  int64_t channels = 3;         // 3: red, green and blue; 1: grey
  std::vector<uint8_t> points;  // [height][width][channels]
};

struct PictureSize {
  int64_t width = 0, height = 0;
};

// Whether a file name is that of a picture: .jpg, .jpeg or .png, in any case.
bool IsPictureName(const std::string& path);

// Reads a picture with three channels. The first bytes determine the format, not the name. Palettes
// and grey become colours, transparency is dropped, and a camera's orientation tag is ignored.
// kInvalidArgument names the file and the remedy: truncated or damaged files, other formats, 16
// bits a channel, CMYK, more than 2^25 points, more than 100 scans, a progressive JPEG whose
// coefficients take more memory than 2^25 points, no plain file, or more than 256 MiB. Decoding
// takes the memory of the points or of the coefficients, whichever is more, and a few hundred KiB.
// kCancelled if it continues for 0.7 s after a signal (StopPatience).
absl::StatusOr<Picture> ReadPicture(const std::string& path);

// Reads only the start of a file, and its picture's size, with the errors that show there.
absl::StatusOr<PictureSize> ReadPictureSize(const std::string& path);

// Converts to one channel with the weights of Pillow's convert("L").
Picture ToGrey(const Picture& colours);

}  // namespace spillway
