// Pictures with labels: CIFAR's binary batches, or a folder with a folder per class. They stay on
// disk; memory holds their labels and locations.
//
// A record of CIFAR-10 is a label byte and 3072 bytes of the picture, 32 x 32: all reds row by row,
// then greens, then blues. A record of CIFAR-100 starts with another byte, its coarse label, which
// is ignored. In a directory, training files are data_batch_*.bin or train.bin, and evaluation
// files test_batch.bin or test.bin.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/steady_file.h"
#include "engine/media/picture.h"

namespace spillway {

struct LabelledPicturesOptions {
  // [label] name; also the name of a class's folder.
  std::vector<std::string> labels;
  bool evaluated = false;  // selects CIFAR's evaluation files in a directory
  // Accepts single pictures and folders of them, too, ignoring other files; they have no labels.
  bool any_pictures = false;
  std::string scratch_directory = {};  // for checksums of CIFAR's files
};

// The labels of picture data, for a model without labels.
struct FoundLabels {
  std::vector<std::string> names;
  bool are_classes = false;  // names of folders
};

// Labels of the first of `paths`: CIFAR-10's names, "LABEL_0" and so on for CIFAR-100, or names of
// folders, sorted by bytes. Errors as in LabelledPictures::Open.
absl::StatusOr<FoundLabels> FindPictureLabels(const std::vector<std::string>& paths);

// Immutable once opened: any thread.
class LabelledPictures {
 public:
  // Reads the labels of every record and the start of every file. kInvalidArgument names the file
  // and the remedy: a label without a name, a class without pictures, truncated records, files that
  // are no pictures.
  static absl::StatusOr<std::unique_ptr<LabelledPictures>> Open(
      const std::vector<std::string>& paths, const LabelledPicturesOptions& options);

  // At least 1.
  int64_t size() const { return static_cast<int64_t>(places_.size()); }
  // REQUIRES below: 0 <= number < size().
  // Reads a picture with three channels. kDataLoss if the file has changed since Open, judged by
  // size and time, or, if the picture was read before, by the checksum of its points alone.
  absl::StatusOr<Picture> Read(int64_t number) const;
  int64_t label(int64_t number) const { return places_[number].label; }

  struct Name {
    std::string file;
    std::optional<int64_t> record;  // index in CIFAR's files
  };
  Name name(int64_t number) const;

  // Whether the data are CIFAR's, 32 points a side.
  bool is_cifar() const { return !batches_.empty(); }
  // A digest of the pictures; files count by name and size only.
  std::string fingerprint() const { return fingerprint_; }

 private:
  struct Batch {
    std::string path;
    std::unique_ptr<SteadyFile> file;
    int64_t label_bytes = 1;
  };
  struct Place {
    int32_t group = 0;      // a batch, or a folder
    int32_t label = 0;      // -1: unknown
    int64_t record = 0;     // index in the batch
    std::string name = {};  // in the folder
    uint64_t size_bytes = 0;
    int64_t modified_ns = 0;
  };
  struct Opening;

  LabelledPictures() = default;

  std::vector<Batch> batches_;
  std::vector<std::string> folders_;
  absl::StatusOr<Picture> ReadFile(int64_t number) const;

  std::vector<Place> places_;
  // [number] checksum of a picture that was read; 0: not yet read
  std::unique_ptr<std::atomic<uint64_t>[]> checksums_;
  std::string fingerprint_;
};

}  // namespace spillway
