#include "engine/data/labelled_pictures.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/stop_signal.h"
#include "engine/base/text_reader.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr int64_t kCifarSide = 32;
constexpr int64_t kCifarPoints = kCifarSide * kCifarSide;
constexpr int64_t kCifarBytes = 3 * kCifarPoints;
constexpr const char* kCifarNames[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                       "dog",      "frog",       "horse", "ship", "truck"};
constexpr int64_t kCifar100Labels = 100;
constexpr int64_t kRecordsAtOnce = 512;

constexpr absl::string_view kTaken =
    "CIFAR's binary batches (.bin), a directory of them, or a folder with a folder of .jpg, .jpeg "
    "and .png files for each class";

// Names in the directory, sorted, without hidden ones.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& directory) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, FileSystem::Real().List(directory));
  std::erase_if(names, [](const std::string& name) { return name.front() == '.'; });
  return names;
}

// CIFAR's files in a directory for training or evaluation; none if it has no such file.
std::vector<std::string> CifarFilesIn(const std::string& directory,
                                      const std::vector<std::string>& names, bool evaluated) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    const bool trains = (absl::StartsWith(name, "data_batch") && absl::EndsWith(name, ".bin")) ||
                        name == "train.bin";
    const bool tests = name == "test_batch.bin" || name == "test.bin";
    if (evaluated ? tests : trains) files.push_back(absl::StrCat(directory, "/", name));
  }
  return files;
}

// Names in `directory` that are folders.
std::vector<std::string> FoldersAmong(const std::string& directory,
                                      const std::vector<std::string>& names) {
  std::vector<std::string> folders;
  for (const std::string& name : names) {
    if (IsDirectory(absl::StrCat(directory, "/", name))) folders.push_back(name);
  }
  return folders;
}

absl::StatusOr<int64_t> LabelBytesOf(const std::string& path, uint64_t size_bytes) {
  for (const int64_t label_bytes : {1, 2}) {
    const auto record = static_cast<uint64_t>(label_bytes + kCifarBytes);
    if (size_bytes > 0 && size_bytes % record == 0) return label_bytes;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, " has ", size_bytes, " bytes, which are no whole records of CIFAR-10 (",
                   kCifarBytes + 1, " bytes each) or CIFAR-100 (", kCifarBytes + 2,
                   "): fetch the binary version again, and give its .bin files"));
}

// The number of label bytes in a record of a CIFAR file.
absl::StatusOr<int64_t> FindLabelBytes(const std::string& path) {
  if (!absl::EndsWith(path, ".bin") && Exists(path)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": pictures with labels are ", kTaken));
  }
  ASSIGN_OR_RETURN(const PlainFile file, OpenPlainFile(path));
  return LabelBytesOf(path, file.size_bytes);
}

absl::Status NoPictures(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(path, " has no pictures: give ", kTaken));
}

}  // namespace

absl::StatusOr<FoundLabels> FindPictureLabels(const std::vector<std::string>& paths) {
  FoundLabels found;
  std::string first = paths.front();
  if (IsDirectory(first)) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(first));
    const std::vector<std::string> cifar = CifarFilesIn(first, names, false);
    if (cifar.empty()) {
      found.are_classes = true;
      found.names = FoldersAmong(first, names);
      if (found.names.empty()) return NoPictures(first);
      if (found.names.size() == 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(first, " has the folder of one class, ", found.names.front(),
                         ", and there is nothing to tell apart: give two or more"));
      }
      return found;
    }
    first = cifar.front();
  }
  ASSIGN_OR_RETURN(const int64_t label_bytes, FindLabelBytes(first));
  if (label_bytes == 1) {
    found.names.assign(std::begin(kCifarNames), std::end(kCifarNames));
  } else {
    for (int64_t i = 0; i < kCifar100Labels; ++i) found.names.push_back(absl::StrCat("LABEL_", i));
  }
  return found;
}

// The implementation of Open, path by path.
struct LabelledPictures::Opening {
  const LabelledPicturesOptions& options;
  LabelledPictures& pictures;
  Digest digest;

  absl::Status Add(const std::string& path) {
    if (!Exists(path)) return absl::NotFoundError(absl::StrCat("there is no ", path));
    if (!IsDirectory(path)) {
      if (absl::EndsWith(path, ".bin")) return AddBatch(path);
      if (!options.any_pictures || !IsPictureName(path)) return NoPictures(path);
      return AddFiles(ParentPath(path), {FileName(path)}, -1);
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(path));
    const std::vector<std::string> cifar = CifarFilesIn(path, names, options.evaluated);
    for (const std::string& file : cifar) RETURN_IF_ERROR(AddBatch(file));
    if (!cifar.empty()) return absl::OkStatus();
    if (!CifarFilesIn(path, names, !options.evaluated).empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " has no ", options.evaluated ? "test_batch.bin or test.bin" : "data_batch_*.bin",
          ": name the files of it that are meant"));
    }
    return AddFolders(path, names);
  }

  absl::Status AddFolders(const std::string& path, const std::vector<std::string>& names) {
    const std::vector<std::string> folders = FoldersAmong(path, names);
    if (folders.empty() && !options.any_pictures) return NoPictures(path);
    if (options.any_pictures) RETURN_IF_ERROR(AddFiles(path, names, -1));
    for (const std::string& folder : folders) {
      const std::string inside = absl::StrCat(path, "/", folder);
      ASSIGN_OR_RETURN(const std::vector<std::string> files, NamesIn(inside));
      if (options.any_pictures) {
        RETURN_IF_ERROR(AddFiles(inside, files, -1));
        continue;
      }
      const auto label = std::find(options.labels.begin(), options.labels.end(), folder);
      if (label == options.labels.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            inside, ": the model has no label \"", folder, "\" (id2label of its config.json has ",
            absl::StrJoin(options.labels.begin(),
                          options.labels.begin() +
                              std::min<int64_t>(10, static_cast<int64_t>(options.labels.size())),
                          ", "),
            options.labels.size() > 10 ? ", ..." : "",
            "): rename the folder or the label, or train a new head for the folders "
            "(--ignore-mismatched-sizes)"));
      }
      const size_t before = pictures.places_.size();
      RETURN_IF_ERROR(
          AddFiles(inside, files, static_cast<int32_t>(label - options.labels.begin())));
      if (pictures.places_.size() > before) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          inside,
          " has no .jpg, .jpeg or .png file: a class needs pictures; remove the folder if "
          "there is none of it"));
    }
    return absl::OkStatus();
  }

  absl::Status AddFiles(const std::string& folder, const std::vector<std::string>& names,
                        int32_t label) {
    const auto group = static_cast<int32_t>(pictures.folders_.size());
    pictures.folders_.push_back(folder);
    for (const std::string& name : names) {
      const std::string path = absl::StrCat(folder, "/", name);
      if (!IsPictureName(name) || IsDirectory(path)) continue;
      RETURN_IF_ERROR(StopSignal::Check());
      RETURN_IF_ERROR(ReadPictureSize(path).status());
      ASSIGN_OR_RETURN(const FileInfo found, FileSystem::Real().Stat(path, SymbolicLink::kFollow));
      const uint64_t bytes = found.size_bytes;
      digest.Update(name.data(), name.size());
      digest.Update(&bytes, sizeof(bytes));
      digest.Update(&label, sizeof(label));
      pictures.places_.push_back({group, label, 0, name, bytes, found.modified_ns});
    }
    return absl::OkStatus();
  }

  absl::Status AddBatch(const std::string& path) {
    ASSIGN_OR_RETURN(const int64_t label_bytes, FindLabelBytes(path));
    ASSIGN_OR_RETURN(auto file, SteadyFile::Open(path, options.scratch_directory));
    const int64_t record = label_bytes + kCifarBytes;
    const int64_t count = static_cast<int64_t>(file->size_bytes()) / record;
    const auto group = static_cast<int32_t>(pictures.batches_.size());
    std::string piece;
    for (int64_t first = 0; first < count; first += kRecordsAtOnce) {
      const int64_t n = std::min(kRecordsAtOnce, count - first);
      RETURN_IF_ERROR(StopSignal::Check());
      piece.resize(static_cast<size_t>(n * record));
      RETURN_IF_ERROR(file->ReadNext(piece.data(), piece.size()));
      digest.Update(piece.data(), piece.size());
      for (int64_t i = 0; i < n; ++i) {
        const int32_t label = static_cast<uint8_t>(piece[i * record + label_bytes - 1]);
        if (label >= static_cast<int32_t>(options.labels.size())) {
          return absl::InvalidArgumentError(absl::StrCat(
              path, ", record ", first + i, ": label ", label, ", but the model has ",
              options.labels.size(),
              " labels: the file is no batch of CIFAR's, or config.json needs more (num_labels, or "
              "id2label)"));
        }
        pictures.places_.push_back({group, label, first + i});
      }
    }
    RETURN_IF_ERROR(file->EndFirstPass());
    pictures.batches_.push_back({path, std::move(file), label_bytes});
    return absl::OkStatus();
  }
};

absl::StatusOr<std::unique_ptr<LabelledPictures>> LabelledPictures::Open(
    const std::vector<std::string>& paths, const LabelledPicturesOptions& options) {
  std::unique_ptr<LabelledPictures> pictures(new LabelledPictures);
  Opening opening{options, *pictures, {}};
  for (const std::string& path : paths) RETURN_IF_ERROR(opening.Add(path));
  if (pictures->places_.empty()) return NoPictures(paths.front());
  if (!pictures->batches_.empty() && !pictures->folders_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(absl::StrJoin(paths, ", "),
                     ": CIFAR's batches and folders of pictures do not go together"));
  }
  pictures->checksums_ = std::make_unique<std::atomic<uint64_t>[]>(pictures->places_.size());
  pictures->fingerprint_ =
      absl::StrFormat("pictures %d %016x", pictures->size(), opening.digest.value());
  return pictures;
}

absl::StatusOr<Picture> LabelledPictures::Read(int64_t number) const {
  const Place& place = places_[number];
  if (batches_.empty()) return ReadFile(number);
  const Batch& batch = batches_[place.group];
  std::vector<char> planes(kCifarBytes);
  const int64_t at = place.record * (batch.label_bytes + kCifarBytes) + batch.label_bytes;
  RETURN_IF_ERROR(batch.file->Read(static_cast<uint64_t>(at), planes.data(), planes.size()));
  Picture picture{kCifarSide, kCifarSide, 3, std::vector<uint8_t>(kCifarBytes)};
  for (int64_t i = 0; i < kCifarBytes; ++i) {
    picture.points[i % kCifarPoints * 3 + i / kCifarPoints] = static_cast<uint8_t>(planes[i]);
  }
  return picture;
}

absl::StatusOr<Picture> LabelledPictures::ReadFile(int64_t number) const {
  const Place& place = places_[number];
  const std::string path = absl::StrCat(folders_[place.group], "/", place.name);
  auto picture = ReadPicture(path);
  if (absl::IsCancelled(picture.status())) return picture;
  const uint64_t known = checksums_[number];
  const uint64_t checksum =
      picture.ok() ? Checksum(picture->points.data(), picture->points.size()) : 0;
  FileInfo then;
  then.size_bytes = place.size_bytes;
  then.modified_ns = place.modified_ns;
  std::string changed;
  if (known == 0 || absl::IsNotFound(picture.status())) {
    changed = DescribeChange(then, FileSystem::Real().Stat(path, SymbolicLink::kFollow));
  } else if (checksum != known) {
    changed = "its bytes are not those that were read before";
  }
  if (!changed.empty()) return DataChangedError(path, changed);
  if (picture.ok()) checksums_[number] = checksum;
  return picture;
}

LabelledPictures::Name LabelledPictures::name(int64_t number) const {
  const Place& place = places_[number];
  if (!batches_.empty()) return {batches_[place.group].path, place.record};
  return {absl::StrCat(folders_[place.group], "/", place.name), std::nullopt};
}

}  // namespace spillway
