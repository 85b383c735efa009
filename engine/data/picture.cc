#include "engine/data/picture.h"

#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/file.h"

namespace spillway {
namespace {

constexpr int64_t kMostPoints = int64_t{1} << 25;  // 96 MiB of three channels
constexpr int64_t kMostNarrow = 100;               // of resized ones the longer side is bounded
constexpr uint64_t kMostFileBytes = uint64_t{256} << 20;
constexpr uint64_t kBeginningBytes = uint64_t{64} << 10;  // has the header, but for a rare one
constexpr char kPngSignature[] = "\x89PNG\r\n\x1a\n";
constexpr char kJpegSignature[] = "\xff\xd8\xff";

// At most so many bytes of a file.
absl::StatusOr<std::string> ReadBeginning(const std::string& path, uint64_t most_bytes) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes(most_bytes, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(most_bytes));
  if (!in && !in.eof()) return ErrnoStatus(errno, absl::StrCat("read ", path));
  bytes.resize(static_cast<size_t>(in.gcount()));
  return bytes;
}

// What a library found in a file, or why it could not go on. Both libraries leave by longjmp, so
// their calls stand in functions whose frames hold nothing that a destructor would have to see.
struct Decoded {
  Picture* picture = nullptr;  // null: only the header is read
  PictureSize size;
  std::string problem;
  bool ended_early = false;  // the bytes end before the picture does
  std::vector<uint8_t*> rows;
};

// Whether points of that size are to be read; otherwise there is a problem.
bool TakeSize(int64_t width, int64_t height, Decoded& out) {
  out.size = {width, height};
  if (width > kMostPoints / height) {
    out.problem = absl::StrCat("it has ", width, " x ", height,
                               " points: scale it down to fewer than ", kMostPoints);
    return false;
  }
  if (std::max(width, height) / std::min(width, height) > kMostNarrow) {
    out.problem = absl::StrCat("it has ", width, " x ", height, " points, which is too narrow");
    return false;
  }
  if (out.picture == nullptr) return false;
  out.picture->width = width;
  out.picture->height = height;
  out.picture->points.resize(static_cast<size_t>(width * height * 3));
  out.rows.resize(static_cast<size_t>(height));
  for (int64_t y = 0; y < height; ++y) out.rows[y] = out.picture->points.data() + y * width * 3;
  return true;
}

struct JpegErrors {
  jpeg_error_mgr base;  // first: libjpeg knows this part
  std::jmp_buf leave;
  char message[JMSG_LENGTH_MAX];
  bool ended_early;
};

void LeaveJpeg(j_common_ptr info) {
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->leave, 1);
}

// Of what libjpeg would go on from, filling in grey, a picture that is cut short is refused.
void NoteJpeg(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level >= 0 || (code != JWRN_JPEG_EOF && code != JWRN_HIT_MARKER)) return;
  reinterpret_cast<JpegErrors*>(info->err)->ended_early = true;
}

void DecodeJpeg(absl::string_view data, JpegErrors& errors, Decoded& out) {
  jpeg_decompress_struct info;
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = LeaveJpeg;
  errors.base.emit_message = NoteJpeg;
  if (setjmp(errors.leave) != 0) {
    jpeg_destroy_decompress(&info);
    out.problem = errors.message;
    out.ended_early = errors.ended_early;
    return;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(data.data()), data.size());
  jpeg_read_header(&info, TRUE);
  if (info.num_components == 4) {
    out.problem = "its colours are CMYK: save it as an RGB picture";
  } else if (TakeSize(info.image_width, info.image_height, out)) {
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      jpeg_read_scanlines(&info, &out.rows[info.output_scanline], 1);
    }
    jpeg_finish_decompress(&info);
  }
  jpeg_destroy_decompress(&info);
  out.ended_early = errors.ended_early;
}

struct PngSource {
  absl::string_view left;
  bool ended_early = false;
  char message[256] = "";
};

void ReadPngBytes(png_structp png, png_bytep to, size_t count) {
  auto* const source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (source->left.size() < count) {
    source->ended_early = true;
    png_error(png, "it ends too soon");
  }
  std::memcpy(to, source->left.data(), count);
  source->left.remove_prefix(count);
}

void LeavePng(png_structp png, png_const_charp message) {
  auto* const source = static_cast<PngSource*>(png_get_error_ptr(png));
  std::snprintf(source->message, sizeof(source->message), "%s", message);
  png_longjmp(png, 1);
}

void IgnorePngWarning(png_structp, png_const_charp) {}

void DecodePng(PngSource& source, Decoded& out) {
  png_structp png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, LeavePng, IgnorePngWarning);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png)) != 0) {
    png_destroy_read_struct(&png, &info, nullptr);
    out.problem = source.message;
    out.ended_early = source.ended_early;
    return;
  }
  png_set_read_fn(png, &source, ReadPngBytes);
  png_read_info(png, info);
  if (png_get_bit_depth(png, info) == 16) {
    out.problem = "it has 16 bits a channel: save it with 8";
  } else if (TakeSize(png_get_image_width(png, info), png_get_image_height(png, info), out)) {
    png_set_expand(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    png_read_image(png, out.rows.data());
    png_read_end(png, nullptr);
  }
  png_destroy_read_struct(&png, &info, nullptr);
}

absl::Status Decode(absl::string_view data, const std::string& path, Decoded& out) {
  if (absl::StartsWith(data, absl::string_view(kPngSignature, 8))) {
    PngSource source{data};
    DecodePng(source, out);
  } else if (absl::StartsWith(data, kJpegSignature)) {
    JpegErrors errors = {};
    DecodeJpeg(data, errors, out);
  } else {
    out.problem = data.empty() ? "it is empty" : "it is neither a JPEG nor a PNG";
  }
  if (out.ended_early) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": this picture is cut short: fetch it again, or remove the file"));
  }
  if (out.problem.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": this is no picture that can be read (",
                                                 out.problem, "); replace or remove the file"));
}

}  // namespace

bool IsPictureName(const std::string& path) {
  for (const char* end : {".jpg", ".jpeg", ".png"}) {
    if (absl::EndsWithIgnoreCase(path, end)) return true;
  }
  return false;
}

absl::StatusOr<Picture> ReadPicture(const std::string& path, uint64_t* checksum) {
  ASSIGN_OR_RETURN(const std::string data, ReadSmallFile(path, kMostFileBytes));
  if (checksum != nullptr) *checksum = Checksum(data.data(), data.size());
  Picture picture;
  Decoded decoded;
  decoded.picture = &picture;
  RETURN_IF_ERROR(Decode(data, path, decoded));
  return picture;
}

absl::StatusOr<PictureSize> ReadPictureSize(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string beginning, ReadBeginning(path, kBeginningBytes));
  Decoded decoded;
  absl::Status status = Decode(beginning, path, decoded);
  if (decoded.ended_early && beginning.size() == kBeginningBytes) {
    ASSIGN_OR_RETURN(const std::string whole, ReadSmallFile(path, kMostFileBytes));
    decoded = Decoded();
    status = Decode(whole, path, decoded);
  }
  RETURN_IF_ERROR(status);
  return decoded.size;
}

Picture ToGrey(const Picture& colours) {
  Picture grey{colours.width, colours.height, 1, {}};
  grey.points.resize(colours.points.size() / 3);
  for (size_t i = 0; i < grey.points.size(); ++i) {
    const uint8_t* const point = &colours.points[3 * i];
    grey.points[i] = static_cast<uint8_t>(
        (point[0] * 19595u + point[1] * 38470u + point[2] * 7471u + 0x8000u) >> 16);
  }
  return grey;
}

}  // namespace spillway
