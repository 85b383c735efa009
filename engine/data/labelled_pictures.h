// Pictures with labels: CIFAR's binary batches, or a folder of a folder a class. They stay where
// they are; what is in memory is their labels and where each one is.
//
// A record of CIFAR-10 is a byte with its label and 3072 of the picture, 32 x 32: all reds row by
// row, then greens, then blues. Of CIFAR-100 a byte with its coarse label, which is left aside,
// stands before. Of a directory of such files those of training are data_batch_*.bin or train.bin,
// and those of evaluation test_batch.bin or test.bin.
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
  // [label] its name. A class's folder has the name of its label.
  std::vector<std::string> labels;
  bool evaluated = false;  // which of CIFAR's files are meant by a directory
  // Also single pictures, and folders of them, whatever else is in there: they have no labels then.
  bool any_pictures = false;
  std::string scratch_directory = {};  // for checksums of CIFAR's files
};

// What labels pictures have, where a model does not say it.
struct FoundLabels {
  std::vector<std::string> names;
  bool are_classes = false;  // names of folders
};

// From the first of `paths`: of CIFAR-10 as they are called there, of CIFAR-100 "LABEL_0" and so
// on, of folders their names, sorted byte by byte. Errors as of LabelledPictures::Open.
absl::StatusOr<FoundLabels> FindPictureLabels(const std::vector<std::string>& paths);

// Immutable once made: any thread.
class LabelledPictures {
 public:
  // Looks at the labels of every record, and at the beginning of every file. kInvalidArgument names
  // the file and the remedy: a label without a name, a class without pictures, records that end
  // early, what is no picture.
  static absl::StatusOr<std::unique_ptr<LabelledPictures>> Open(
      const std::vector<std::string>& paths, const LabelledPicturesOptions& options);

  // At least 1.
  int64_t size() const { return static_cast<int64_t>(places_.size()); }
  // REQUIRES below: 0 <= number < size().
  // Of three channels. kDataLoss where the file changed since Open: by its size and time, or by the
  // checksum of the points that were read before, which counts alone once there is one.
  absl::StatusOr<Picture> Read(int64_t number) const;
  int64_t label(int64_t number) const { return places_[number].label; }

  struct Name {
    std::string file;
    std::optional<int64_t> record;  // of CIFAR's files, from 0
  };
  Name name(int64_t number) const;

  // CIFAR's: all of 32 points a side.
  bool is_cifar() const { return !batches_.empty(); }
  // Changes with the pictures, of files as far as names and sizes tell.
  std::string fingerprint() const { return fingerprint_; }

 private:
  struct Batch {
    std::string path;
    std::unique_ptr<SteadyFile> file;
    int64_t label_bytes = 1;
  };
  struct Place {
    int32_t group = 0;      // a batch, or a folder
    int32_t label = 0;      // -1: not known
    int64_t record = 0;     // in the batch
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
  // [number] of a file, once it was read; 0: not yet
  std::unique_ptr<std::atomic<uint64_t>[]> checksums_;
  std::string fingerprint_;
};

}  // namespace spillway
