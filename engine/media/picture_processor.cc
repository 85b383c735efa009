#include "engine/media/picture_processor.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/model_file.h"
#include "engine/families/config_reader.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr int64_t kMostSide = 4096;
// ConvNextImageProcessor's threshold: smaller pictures are cropped from slightly larger ones.
constexpr int64_t kWholeFrom = 384;
constexpr double kUsualCropShare = 224.0 / 256;

// --- Reading

// Reads a number, or {"height": .., "width": ..}; {"shortest_edge": ..} into `shortest`.
void ReadSides(ConfigReader& reader, const char* key, PictureSize* size, int64_t* shortest) {
  const json* const found = reader.Find({key});
  if (found == nullptr) return;
  const auto side = [](const json& value) -> int64_t {
    const bool right = value.is_number_integer() && value >= 1 && value <= kMostSide;
    return right ? value.get<int64_t>() : 0;
  };
  if (found->is_object() && found->contains("shortest_edge") && found->size() == 1) {
    *shortest = side((*found)["shortest_edge"]);
    if (*shortest > 0) return;
  } else if (found->is_object() && found->contains("height") && found->contains("width")) {
    *size = {side((*found)["width"]), side((*found)["height"])};
    if (size->width > 0 && size->height > 0) return;
  } else if (const int64_t both = side(*found); both > 0) {
    *size = {both, both};
    return;
  }
  reader.Refuse(
      key, *found,
      absl::StrCat("{\"shortest_edge\": N}, {\"height\": N, \"width\": N} or N, from 1 to ",
                   kMostSide));
}

void ReadChannelNumbers(ConfigReader& reader, const char* key, bool positive,
                        std::vector<double>* numbers) {
  const json* const found = reader.Find({key});
  if (found == nullptr) return;
  const std::string expected = absl::StrCat("a list of 1 or 3 numbers", positive ? " above 0" : "");
  if (!found->is_array() || (found->size() != 1 && found->size() != 3)) {
    return reader.Refuse(key, *found, expected);
  }
  numbers->clear();
  for (const json& value : *found) {
    if (!value.is_number() || (positive && value <= 0)) {
      return reader.Refuse(key, *found, expected);
    }
    numbers->push_back(value.get<double>());
  }
}

void ReadFilter(ConfigReader& reader, ResizeFilter* filter) {
  const json* const found = reader.Find({"resample"});
  if (found == nullptr) return;
  for (const ResizeFilter known :
       {ResizeFilter::kNearest, ResizeFilter::kBilinear, ResizeFilter::kBicubic}) {
    if (*found != json(static_cast<int>(known))) continue;
    *filter = known;
    return;
  }
  reader.Refuse("resample", *found, "0 (nearest), 2 (bilinear) or 3 (bicubic)");
}

// Sets the resize and crop of ConvNextImageProcessor for pictures of `side` points.
void FitAsConvNext(int64_t side, double crop_share, PictureProcessing& processing) {
  processing.size = {side, side};
  processing.shorter_side =
      side < kWholeFrom ? static_cast<int64_t>(static_cast<double>(side) / crop_share) : 0;
}

void ReadFit(ConfigReader& reader, const std::string& type, int64_t side,
             PictureProcessing& processing) {
  const bool convnext = reader.Has({"crop_pct"}) || absl::StartsWith(type, "ConvNext");
  double crop_share = kUsualCropShare;
  reader.Number({"crop_pct"}, 1e-3, 1 + 1e-9, "a number above 0 and at most 1", &crop_share);
  PictureSize size{224, 224}, crop{0, 0};
  int64_t shortest = 0, ignored = 0;
  ReadSides(reader, "size", &size, &shortest);
  bool crops = !convnext && shortest > 0;
  reader.Boolean({"do_center_crop"}, &crops);
  ReadSides(reader, "crop_size", &crop, &ignored);
  if (!reader.status().ok()) return;
  if (convnext) {
    return FitAsConvNext(side > 0       ? side
                         : shortest > 0 ? shortest
                                        : size.width,
                         crop_share, processing);
  }
  if (shortest > 0 && !crops) {
    return reader.Unsupported(
        "size",
        "size has a shortest_edge without do_center_crop: pictures would be of "
        "different sizes; add \"do_center_crop\": true with a crop_size");
  }
  processing.size = size;
  if (crops) {
    if (crop.width == 0) crop = {224, 224};
    processing.size = crop;
    const bool whole = shortest == 0;  // resized as a whole first, like in DeiTImageProcessor
    const int64_t shorter = whole ? std::min(size.width, size.height) : shortest;
    if (shorter < std::max(crop.width, crop.height) || (whole && size.width != size.height)) {
      return reader.Unsupported(
          "crop_size", "crop_size is more than what pictures are resized to, or that is no square");
    }
    processing.shorter_side = shorter;
    processing.keeps_proportions = !whole;
  }
  if (side > 0) {
    const double ratio = static_cast<double>(side) / static_cast<double>(processing.size.width);
    processing.shorter_side =
        static_cast<int64_t>(std::llround(static_cast<double>(processing.shorter_side) * ratio));
    processing.size = {side, side};
  }
}

// --- Resizing, as Pillow's libImaging/Resample.c

constexpr int kPrecisionBits = 32 - 8 - 2;

double Triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

double Cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// The input points of an output point, and their weights.
struct PointWeights {
  int64_t first = 0;
  std::vector<int32_t> weights;
};

std::vector<PointWeights> WeightsFor(int64_t in, int64_t out, ResizeFilter filter) {
  const auto weigh = filter == ResizeFilter::kBicubic ? Cubic : Triangle;
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double filter_scale = std::max(scale, 1.0);
  const double support = (filter == ResizeFilter::kBicubic ? 2 : 1) * filter_scale;
  std::vector<PointWeights> all(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
    const int64_t end = std::min<int64_t>(in, static_cast<int64_t>(center + support + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (int64_t x = first; x < end; ++x) {
      weights.push_back(weigh((static_cast<double>(x) - center + 0.5) * (1.0 / filter_scale)));
      sum += weights.back();
    }
    all[i].first = first;
    for (const double weight : weights) {
      const double fixed = (sum != 0 ? weight / sum : weight) * (1 << kPrecisionBits);
      all[i].weights.push_back(static_cast<int32_t>(fixed + (fixed < 0 ? -0.5 : 0.5)));
    }
  }
  return all;
}

uint8_t Clipped(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

// Resizes along one side: [outer][side][inner] values become [outer][new_side][inner].
std::vector<uint8_t> Along(const std::vector<uint8_t>& values, int64_t outer, int64_t side,
                           int64_t new_side, ResizeFilter filter) {
  const int64_t inner = static_cast<int64_t>(values.size()) / (outer * side);
  const std::vector<PointWeights> weights = WeightsFor(side, new_side, filter);
  std::vector<uint8_t> made(static_cast<size_t>(outer * new_side * inner));
  uint8_t* to = made.data();
  for (int64_t line = 0; line < outer; ++line) {
    for (const PointWeights& point : weights) {
      for (int64_t i = 0; i < inner; ++i) {
        int32_t sum = 1 << (kPrecisionBits - 1);
        const uint8_t* from = &values[(line * side + point.first) * inner + i];
        for (const int32_t weight : point.weights) {
          sum += *from * weight;
          from += inner;
        }
        *to++ = Clipped(sum);
      }
    }
  }
  return made;
}

Picture Nearest(const Picture& in, PictureSize to) {
  Picture out{to.width, to.height, in.channels, {}};
  const auto from = [](int64_t i, int64_t in_side, int64_t out_side) {
    const double scale = static_cast<double>(in_side) / static_cast<double>(out_side);
    return std::min(in_side - 1, static_cast<int64_t>((static_cast<double>(i) + 0.5) * scale));
  };
  for (int64_t y = 0; y < to.height; ++y) {
    for (int64_t x = 0; x < to.width; ++x) {
      const int64_t at = from(y, in.height, to.height) * in.width + from(x, in.width, to.width);
      const auto point = in.points.begin() + at * in.channels;
      out.points.insert(out.points.end(), point, point + in.channels);
    }
  }
  return out;
}

Picture Middle(const Picture& in, PictureSize size) {
  const int64_t top = (in.height - size.height) / 2, left = (in.width - size.width) / 2;
  Picture out{size.width, size.height, in.channels, {}};
  for (int64_t y = top; y < top + size.height; ++y) {
    const auto row = in.points.begin() + (y * in.width + left) * in.channels;
    out.points.insert(out.points.end(), row, row + size.width * in.channels);
  }
  return out;
}

}  // namespace

absl::StatusOr<std::optional<PictureProcessing>> ReadPictureProcessing(const std::string& directory,
                                                                       int64_t side) {
  const auto document = ReadModelJson(directory, "preprocessor_config.json");
  if (absl::IsNotFound(document.status())) return std::nullopt;
  RETURN_IF_ERROR(document.status());
  ASSIGN_OR_RETURN(PictureProcessing processing, ParsePictureProcessing(*document, side));
  return processing;
}

absl::StatusOr<PictureProcessing> ParsePictureProcessing(const JsonDocument& document,
                                                         int64_t side) {
  if (!document.value.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(document.file, ": not a JSON object"));
  }
  ConfigReader reader(document);
  PictureProcessing processing;
  const std::string type =
      reader.Text("image_processor_type") + reader.Text("feature_extractor_type");
  bool resizes = true, rescales = true, normalises = true;
  reader.Boolean({"do_resize"}, &resizes);
  reader.Boolean({"do_rescale"}, &rescales);
  reader.Boolean({"do_normalize"}, &normalises);
  if (!resizes) {
    reader.Unsupported("do_resize",
                       "do_resize is false: pictures of different sizes make no batch");
  }
  ReadFilter(reader, &processing.filter);
  ReadFit(reader, type, side, processing);
  reader.Number({"rescale_factor"}, 1e-9, 1e9, "a number above 0", &processing.scale);
  if (!rescales) processing.scale = 1;
  ReadChannelNumbers(reader, "image_mean", false, &processing.mean);
  ReadChannelNumbers(reader, "image_std", true, &processing.std);
  if (!normalises) processing.mean = {0}, processing.std = {1};
  RETURN_IF_ERROR(reader.status());
  if (processing.shorter_side > kMostSide) {
    const char* const key = reader.Has({"crop_pct"}) ? "crop_pct" : "crop_size";
    reader.Unsupported(key, absl::StrCat(key, " asks for pictures of ", processing.shorter_side,
                                         " points a side before their middle is taken; at most ",
                                         kMostSide, " can be"));
  }
  if (!reader.unsupported().empty()) {
    return absl::InvalidArgumentError(reader.unsupported().front());
  }
  if (side == 0) processing.original = document.value;
  return processing;
}

PictureProcessing PlainProcessing(int64_t side) {
  PictureProcessing processing;
  processing.size = {side, side};
  return processing;
}

PictureProcessing MiddleProcessing(int64_t side) {
  PictureProcessing processing;
  FitAsConvNext(side, kUsualCropShare, processing);
  return processing;
}

json ToJson(const PictureProcessing& processing, int64_t channels) {
  if (!processing.original.is_null()) return processing.original;
  const auto all = [&](std::vector<double> numbers) {
    if (numbers.size() == 1) numbers.resize(static_cast<size_t>(channels), numbers.front());
    return numbers;
  };
  json out = {{"do_resize", true},
              {"resample", static_cast<int>(processing.filter)},
              {"do_rescale", true},
              {"rescale_factor", processing.scale},
              {"do_normalize", true},
              {"image_mean", all(processing.mean)},
              {"image_std", all(processing.std)}};
  const json size = {{"height", processing.size.height}, {"width", processing.size.width}};
  if (processing.shorter_side == 0) {
    out["image_processor_type"] = "ViTImageProcessor";
    out["size"] = size;
  } else {
    const int64_t shorter = processing.shorter_side;
    const bool keeps = processing.keeps_proportions;
    out["image_processor_type"] = keeps ? "CLIPImageProcessor" : "DeiTImageProcessor";
    out["size"] =
        keeps ? json{{"shortest_edge", shorter}} : json{{"height", shorter}, {"width", shorter}};
    out["do_center_crop"] = true;
    out["crop_size"] = size;
    out["do_convert_rgb"] = channels == 3;
  }
  return out;
}

Picture Resize(const Picture& picture, PictureSize to, ResizeFilter filter) {
  if (picture.width == to.width && picture.height == to.height) return picture;
  if (filter == ResizeFilter::kNearest) return Nearest(picture, to);
  Picture resized{to.width, to.height, picture.channels, {}};
  const bool across = picture.width != to.width, down = picture.height != to.height;
  if (across)
    resized.points = Along(picture.points, picture.height, picture.width, to.width, filter);
  if (down) {
    resized.points =
        Along(across ? resized.points : picture.points, 1, picture.height, to.height, filter);
  }
  return resized;
}

Picture Fit(const PictureProcessing& processing, Picture picture) {
  const int64_t shorter = processing.shorter_side;
  if (shorter == 0) return Resize(picture, processing.size, processing.filter);
  const auto side = [&](int64_t own, int64_t other) {
    return own <= other ? shorter : shorter * own / other;
  };
  PictureSize to = {shorter, shorter};
  if (processing.keeps_proportions) {
    to = {side(picture.width, picture.height), side(picture.height, picture.width)};
  }
  return Middle(Resize(picture, to, processing.filter), processing.size);
}

void Normalise(const PictureProcessing& processing, const Picture& picture, float* out) {
  const int64_t points = picture.width * picture.height;
  for (int64_t channel = 0; channel < picture.channels; ++channel) {
    const auto of = [&](const std::vector<double>& numbers) {
      return numbers.size() == 1 ? numbers[0] : numbers[static_cast<size_t>(channel)];
    };
    const double mean = of(processing.mean), std = of(processing.std);
    for (int64_t i = 0; i < points; ++i) {
      const double value = picture.points[i * picture.channels + channel];
      *out++ = static_cast<float>((value * processing.scale - mean) / std);
    }
  }
}

}  // namespace spillway
