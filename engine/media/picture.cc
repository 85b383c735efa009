#include "engine/media/picture.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/work_count.h"
#include "engine/media/jpeg_coefficients.h"
#include "engine/media/media_file.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"

// jerror.h must follow jpeglib.h.
#include <jerror.h>

namespace spillway {
namespace {

constexpr int64_t kMostPoints = int64_t{1} << 25;  // 96 MiB of three channels
// Bounds the longer side of a picture resized by the shorter one.
constexpr int64_t kMostNarrow = 100;
constexpr uint64_t kMostFileBytes = uint64_t{256} << 20;
// Memory of a progressive JPEG's coefficients, before its points: as much as the most points.
constexpr uint64_t kMostCoefficientBytes = 3 * kMostPoints;
// Encoders write about 10; each takes a pass over all blocks, however little it has.
constexpr int kMostScans = 100;
constexpr size_t kBufferBytes = 64 << 10;
constexpr char kPngSignature[] = "\x89PNG\r\n\x1a\n";
constexpr char kJpegSignature[] = "\xff\xd8\xff";

// The result or error of a library. Both libraries return from errors by longjmp, so they are
// called from functions without objects that need destruction.
struct Decoded {
  MediaFile* file = nullptr;
  Picture* picture = nullptr;  // null: reads only the header
  PictureSize size;
  std::string problem;
  bool ended_early = false;  // the file is truncated
};

// Whether points of that size are to be read; otherwise there is a problem, or only the size is
// wanted.
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
  // reserve() does not touch memory: rows become resident as their input is released.
  out.picture->points.reserve(static_cast<size_t>(width * height * 3));
  return true;
}

uint8_t* NextRow(Decoded& out) {
  std::vector<uint8_t>& points = out.picture->points;
  points.resize(points.size() + static_cast<size_t>(3 * out.size.width));
  return &points.back() + 1 - 3 * out.size.width;
}

// libjpeg's access to a file, and its error handling.
struct JpegSession {
  jpeg_error_mgr errors;
  jpeg_source_mgr source;
  jpeg_progress_mgr progress;
  std::jmp_buf leave;
  char message[JMSG_LENGTH_MAX];
  Decoded* out;
  bool too_many_scans;
  JOCTET buffer[kBufferBytes];
};

template <typename Info>
JpegSession& SessionOf(Info info) {
  return *reinterpret_cast<JpegSession*>(info->err);  // its first member
}

[[noreturn]] void LeaveJpeg(j_common_ptr info) {
  JpegSession& session = SessionOf(info);
  info->err->format_message(info, session.message);
  std::longjmp(session.leave, 1);
}

// Refuses truncated pictures, which libjpeg would complete with grey.
void NoteJpeg(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level >= 0 || (code != JWRN_JPEG_EOF && code != JWRN_HIT_MARKER)) return;
  SessionOf(info).out->ended_early = true;
}

void NoJpegSource(j_decompress_ptr) {}

boolean FillJpegBuffer(j_decompress_ptr info) {
  JpegSession& session = SessionOf(info);
  size_t bytes = session.out->file->Read(session.buffer, sizeof(session.buffer));
  if (session.out->file->GivesUp()) std::longjmp(session.leave, 1);
  if (bytes == 0) {  // the end, as in libjpeg's own sources
    WARNMS(info, JWRN_JPEG_EOF);
    session.buffer[0] = 0xff;
    session.buffer[1] = JPEG_EOI;
    bytes = 2;
  }
  session.source.next_input_byte = session.buffer;
  session.source.bytes_in_buffer = bytes;
  return TRUE;
}

// Skips application data.
void SkipJpegBytes(j_decompress_ptr info, long bytes) {
  jpeg_source_mgr& source = SessionOf(info).source;
  if (bytes <= 0) return;
  const auto count = static_cast<size_t>(bytes);
  if (count <= source.bytes_in_buffer) {
    source.next_input_byte += count;
    source.bytes_in_buffer -= count;
    return;
  }
  MediaFile& file = *SessionOf(info).out->file;
  file.Seek(file.offset() + count - source.bytes_in_buffer);
  FillJpegBuffer(info);
}

// Called for every row of blocks of every scan, and every row of points.
void LookAtJpegProgress(j_common_ptr info) {
  JpegSession& session = SessionOf(info);
  const auto& jpeg = *reinterpret_cast<j_decompress_ptr>(info);
  WorkCount::Add(jpeg.image_width);
  session.too_many_scans = jpeg.input_scan_number > kMostScans;
  if (session.too_many_scans || session.out->file->GivesUp()) std::longjmp(session.leave, 1);
}

void ReadJpeg(j_decompress_ptr info, Decoded& out) {
  jpeg_create_decompress(info);
  KeepJpegCoefficients(info);
  JpegSession& session = SessionOf(info);
  session.source = {
      nullptr,     0, NoJpegSource, FillJpegBuffer, SkipJpegBytes, jpeg_resync_to_restart,
      NoJpegSource};
  session.progress.progress_monitor = LookAtJpegProgress;
  info->src = &session.source;
  info->progress = &session.progress;
  jpeg_read_header(info, TRUE);
  const uint64_t coefficients = JpegCoefficientBytes(*info);
  if (info->num_components == 4) {
    out.problem = "its colours are CMYK: save it as an RGB picture";
  } else if (coefficients > kMostCoefficientBytes) {
    out.size = {info->image_width, info->image_height};
    out.problem = absl::StrCat(
        "it is progressive, of ", out.size.width, " x ", out.size.height,
        " points, and decoding it takes ", FormatBytes(coefficients), " of memory besides, where ",
        FormatBytes(kMostCoefficientBytes),
        " are allowed: scale it down, or make a plain JPEG of it without a loss, by `jpegtran FILE "
        "> NEW`");
  } else if (TakeSize(info->image_width, info->image_height, out)) {
    info->out_color_space = JCS_RGB;
    jpeg_start_decompress(info);
    while (info->output_scanline < info->output_height) {
      uint8_t* row = NextRow(out);
      jpeg_read_scanlines(info, &row, 1);
    }
    jpeg_finish_decompress(info);
  }
}

void DecodeJpeg(JpegSession& session, Decoded& out) {
  jpeg_decompress_struct info = {};
  info.err = jpeg_std_error(&session.errors);
  session.errors.error_exit = LeaveJpeg;
  session.errors.emit_message = NoteJpeg;
  session.out = &out;
  if (setjmp(session.leave) == 0) {
    ReadJpeg(&info, out);
  } else if (session.too_many_scans) {
    out.problem = absl::StrCat("it has more than ", kMostScans,
                               " scans: make a plain JPEG of it, by `jpegtran FILE > NEW`");
  } else {
    out.problem = session.message;
  }
  jpeg_destroy_decompress(&info);
}

struct PngSession {
  Decoded* out;
  char message[256];
};

void ReadPngBytes(png_structp png, png_bytep to, size_t count) {
  Decoded& out = *static_cast<PngSession*>(png_get_io_ptr(png))->out;
  if (out.file->Read(to, count) == count) return;
  out.ended_early = true;
  png_error(png, "it ends too soon");
}

void LeavePng(png_structp png, png_const_charp message) {
  auto* const session = static_cast<PngSession*>(png_get_error_ptr(png));
  std::snprintf(session->message, sizeof(session->message), "%s", message);
  png_longjmp(png, 1);
}

void IgnorePngWarning(png_structp, png_const_charp) {}

void ReadPngRows(png_structp png, png_infop info, Decoded& out) {
  png_set_expand(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  // Every pass of an interlaced picture covers all rows.
  uint8_t* const points = NextRow(out);
  const int64_t row_bytes = 3 * out.size.width;
  for (int64_t y = 1; y < out.size.height; ++y) NextRow(out);
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < out.size.height; ++y) {
      if (out.file->GivesUp()) png_error(png, "given up");
      WorkCount::Add(static_cast<uint64_t>(out.size.width));
      png_read_row(png, points + y * row_bytes, nullptr);
    }
  }
  png_read_end(png, nullptr);
}

void DecodePng(PngSession& session, Decoded& out) {
  png_structp png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &session, LeavePng, IgnorePngWarning);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png)) != 0) {
    png_destroy_read_struct(&png, &info, nullptr);
    out.problem = session.message;
    return;
  }
  png_set_read_fn(png, &session, ReadPngBytes);
  // Texts, profiles and other chunks are neither kept nor inflated.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(png, info);
  if (png_get_bit_depth(png, info) == 16) {
    out.problem = "it has 16 bits a channel: save it with 8";
  } else if (TakeSize(png_get_image_width(png, info), png_get_image_height(png, info), out)) {
    ReadPngRows(png, info, out);
  }
  png_destroy_read_struct(&png, &info, nullptr);
}

absl::Status Decode(const std::string& path, Decoded& out) {
  ASSIGN_OR_RETURN(const std::unique_ptr<MediaFile> file, MediaFile::Open(path));
  if (file->size_bytes() > kMostFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": it has ", FormatBytes(file->size_bytes()), ", and a picture ",
                     FormatBytes(kMostFileBytes), " at most: scale it down"));
  }
  out.file = file.get();
  char beginning[8] = {};
  const absl::string_view found(beginning, file->Read(beginning, sizeof(beginning)));
  file->Seek(0);
  if (absl::StartsWith(found, absl::string_view(kPngSignature, 8))) {
    PngSession session = {&out, ""};
    DecodePng(session, out);
  } else if (absl::StartsWith(found, kJpegSignature)) {
    const auto session = std::make_unique<JpegSession>();
    DecodeJpeg(*session, out);
  } else {
    out.problem = "it is neither a JPEG nor a PNG";
  }
  RETURN_IF_ERROR(file->status());
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

absl::StatusOr<Picture> ReadPicture(const std::string& path) {
  Picture picture;
  Decoded decoded;
  decoded.picture = &picture;
  RETURN_IF_ERROR(Decode(path, decoded));
  return picture;
}

absl::StatusOr<PictureSize> ReadPictureSize(const std::string& path) {
  Decoded decoded;
  RETURN_IF_ERROR(Decode(path, decoded));
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
