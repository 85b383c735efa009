#include "engine/weights/weight_files.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/shell_line.h"
#include "engine/weights/safetensors_index.h"
#include "engine/weights/torch_file.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

using FileNames = std::vector<std::string>;

constexpr absl::string_view kTorchName = "pytorch_model.bin";
constexpr absl::string_view kTorchIndexName = "pytorch_model.bin.index.json";
constexpr absl::string_view kAdapterModel = "adapter_model.";
// Smaller files of an unknown kind are not taken for weights.
constexpr uint64_t kUnknownLargeBytes = 1 << 20;

// Extensions of torch.save, which other programs use, too.
constexpr absl::string_view kTorchEnds[] = {".bin", ".pt", ".pth", ".ckpt"};
// Files that a Trainer saves beside weights.
constexpr absl::string_view kTrainingState[] = {
    "training_args.bin", "optimizer.", "scheduler.", "rng_state", "scaler.pt", "random_states_"};

// Formats of weights that are not read, by the ends of names.
struct UnreadFormat {
  absl::string_view what;
  FileNames ends;
};
const std::vector<UnreadFormat>& UnreadFormats() {
  static const auto& formats = *new std::vector<UnreadFormat>{
      {"safetensors under another name", {".safetensors", ".safetensors.index.json"}},
      {"TensorFlow", {".h5", ".hdf5", ".keras", ".ckpt.index", ".ckpt.meta", ".pb"}},
      {"Flax", {".msgpack"}},
      {"GGUF", {".gguf", ".ggml", ".ggla", ".ggjt"}},
      {"ONNX", {".onnx", ".onnx_data", ".onnx.data", ".ort"}},
      {"NumPy arrays", {".npz"}},
      {"NeMo", {".nemo", ".distckpt"}},
      {"Core ML", {".mlmodel", ".mlpackage"}},
      {"TensorFlow Lite", {".tflite", ".lite"}},
      {"rust-bert", {".ot"}},
      {"TensorRT", {".engine", ".plan", ".trt"}},
      {"OpenVINO", {"openvino_model.xml"}},
      {"PaddlePaddle or MXNet", {".pdparams", ".pdmodel", ".params"}},
      {"a checkpoint in parts", {".distcp"}},
      {"a pickle", {".pkl", ".pickle", ".joblib"}},
      {"an archive", {".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z"}},
      {"a download that is not finished", {".incomplete", ".part", ".crdownload", ".aria2"}},
  };
  return formats;
}

// Kinds of files that are saved beside weights and contain none.
constexpr absl::string_view kSideEnds[] = {
    ".json", ".jsonl", ".txt",  ".md",  ".rst",  ".jinja", ".model", ".py",      ".ipynb", ".sh",
    ".yaml", ".yml",   ".toml", ".cfg", ".ini",  ".csv",   ".tsv",   ".xml",     ".html",  ".pdf",
    ".png",  ".jpg",   ".jpeg", ".gif", ".webp", ".svg",   ".wav",   ".mp3",     ".flac",  ".mp4",
    ".log",  ".lock",  ".npy",  ".spm", ".bpe",  ".codes", ".vocab", ".tiktoken"};

bool EndsWithAny(absl::string_view name, const auto& ends) {
  return absl::c_any_of(ends, [&](const auto& end) { return absl::EndsWith(name, end); });
}

bool NameBeginsWithAny(absl::string_view name, const auto& beginnings) {
  return absl::c_any_of(beginnings,
                        [&](const auto& begin) { return absl::StartsWith(name, begin); });
}

// The format of a lower-case name; null: unknown.
const UnreadFormat* FormatOf(absl::string_view name) {
  for (const UnreadFormat& format : UnreadFormats()) {
    if (EndsWithAny(name, format.ends)) return &format;
  }
  return nullptr;
}

bool IsTorchName(absl::string_view name) {
  return EndsWithAny(name, kTorchEnds) && !NameBeginsWithAny(name, kTrainingState) &&
         !absl::StartsWith(name, kAdapterModel);
}

FileNames FilesIn(const std::string& directory) {
  return FileSystem::Real().List(directory).value_or(FileNames());
}

// A name in a directory may be a link that leads nowhere.
bool IsNamedThere(const std::string& path) { return FileSystem::Real().Stat(path).ok(); }

// The first bytes of a plain file; "" for anything else.
std::string FirstBytesOf(const std::string& path) {
  const auto found = FileSystem::Real().Stat(path, SymbolicLink::kFollow);
  if (!found.ok() || found->kind != FileInfo::Kind::kFile) return "";
  std::string begin(8, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  return begin;
}

// Whether the name is a model's, which a raw .bin of tokens does not have.
bool IsNamedAsModel(absl::string_view name) {
  return absl::c_any_of(std::initializer_list<absl::string_view>{"model", "weight", "consolidated",
                                                                 "checkpoint", "adapter", "state"},
                        [&](absl::string_view word) { return absl::StrContains(name, word); });
}

absl::Status Unread(absl::string_view directory, absl::string_view name, absl::string_view what,
                    absl::string_view advice) {
  return absl::InvalidArgumentError(absl::StrCat(
      directory, " has ", name, " (", what, "), which can hold weights and is not read, and no ",
      kSafetensorsName, " or ", kTorchName, ". ", advice,
      "; to begin with weights drawn at random, ", "move ", name, " away"));
}

// TensorFlow's and Flax's weights, which transformers has read up to its version 4.
std::string OldTransformers(absl::string_view directory, absl::string_view framework,
                            absl::string_view argument) {
  return absl::StrCat(
      "transformers 4 converts it (pip install 'transformers<5' ", framework, "): ",
      ShellLine({"python3", "-c",
                 absl::StrCat("import sys, transformers as t; d = sys.argv[1]; c = "
                              "t.AutoConfig.from_pretrained(d); n = (c.architectures or "
                              "['AutoModel'])[0]; getattr(t, n).from_pretrained(d, ",
                              argument, "=True).save_pretrained(d)"),
                 std::string(directory)}));
}

std::string AdviceFor(const UnreadFormat& format, absl::string_view directory,
                      absl::string_view name) {
  if (format.what == "TensorFlow") return OldTransformers(directory, "tensorflow", "from_tf");
  if (format.what == "Flax") return OldTransformers(directory, "flax", "from_flax");
  if (absl::StartsWith(format.what, "safetensors")) {
    return "Weights are read under these names: put what is missing there (fetch the model again), "
           "or rename it";
  }
  if (format.what == "an archive") return "Unpack it";
  if (format.what == "a download that is not finished") return "Fetch the model again";
  return absl::StrCat("Give the directory of safetensors that ", name, " was made from");
}

// Describes a file with an extension of torch.save that does not begin as one.
std::string WhatElse(absl::string_view name, absl::string_view begin) {
  if (absl::StartsWith(begin, "version ")) {
    return "git-lfs's pointer to the file: fetch it with git lfs pull";
  }
  if (begin.empty()) return "an empty file";
  if (name == "model.bin") return "no file of torch.save: CTranslate2, perhaps";
  return "no file of torch.save";
}

// Names in subfolders, "folder/name", which are checked only for weights of known formats.
FileNames NamesBelow(const std::string& directory, const FileNames& folders) {
  FileNames names;
  for (const std::string& folder : folders) {
    if (folder[0] == '.') continue;
    for (const std::string& name : FilesIn(absl::StrCat(directory, "/", folder))) {
      names.push_back(absl::StrCat(folder, "/", name));
    }
  }
  return names;
}

// Whether a file in a subfolder has weights. Data is in subfolders, too, so archives and unknown
// kinds do not count there.
bool IsWeightsBelow(absl::string_view name) {
  const UnreadFormat* const format = FormatOf(name);
  if (format != nullptr) {
    return format->what != "an archive" && format->what != "NumPy arrays" &&
           format->what != "a pickle";
  }
  return IsTorchName(name) && IsNamedAsModel(name);
}

class WeightFinder {
 public:
  explicit WeightFinder(const std::string& directory) : directory_(directory) {
    for (const std::string& name : FilesIn(directory)) {
      (IsDirectory(PathOf(name)) ? folders_ : files_).push_back(name);
    }
  }

  absl::StatusOr<WeightFiles> Find() const {
    for (const absl::string_view name : {kSafetensorsName, kTorchName}) {
      const absl::string_view index = name == kTorchName ? kTorchIndexName : kSafetensorsIndexName;
      if (IsNamedThere(PathOf(name)) && (name == kSafetensorsName || IsOfTorch(name))) {
        return WeightFiles{PathOf(name), ""};
      }
      if (IsNamedThere(PathOf(index))) return WeightFiles{"", PathOf(index)};
    }
    RETURN_IF_ERROR(DescribeShardedCheckpoint(directory_));
    const FileNames torch = TorchFiles();
    if (torch.size() == 1) return WeightFiles{PathOf(torch[0]), ""};
    if (torch.size() > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          directory_, " has several files of torch.save and no ", kTorchIndexName,
          ", which says what is in which: ", absl::StrJoin(torch, ", "),
          ". Leave the one with the weights there, or make one of them (the original files of a "
          "Llama are converted by python3 -m "
          "transformers.models.llama.convert_llama_weights_to_hf)"));
    }
    RETURN_IF_ERROR(RefuseOthers());
    return absl::NotFoundError(absl::StrCat(directory_, " has no weights (", kSafetensorsName, ", ",
                                            kTorchName, " or the index of their shards)"));
  }

 private:
  std::string PathOf(absl::string_view name) const { return absl::StrCat(directory_, "/", name); }
  bool IsOfTorch(absl::string_view name) const {
    return BeginsAsTorchFile(FirstBytesOf(PathOf(name)));
  }

  FileNames TorchFiles() const {
    FileNames names;
    for (const std::string& name : files_) {
      if (IsTorchName(absl::AsciiStrToLower(name)) && IsOfTorch(name)) names.push_back(name);
    }
    return names;
  }

  absl::Status RefuseOthers() const {
    for (const std::string& name : files_) RETURN_IF_ERROR(Refuse(name));
    for (const std::string& path : NamesBelow(directory_, folders_)) {
      const std::string name = absl::AsciiStrToLower(FileName(path));
      const std::string folder = PathOf(ParentPath(path));
      if (!IsWeightsBelow(name)) continue;
      return Unread(directory_, path, "weights in a folder below",
                    Exists(folder + "/config.json")
                        ? absl::StrCat("Give ", ShellLine({"--model", folder}))
                        : absl::StrCat("Give the directory that has config.json beside them"));
    }
    return absl::OkStatus();
  }

  absl::Status Refuse(const std::string& written) const {
    const std::string name = absl::AsciiStrToLower(written);
    if (absl::StartsWith(name, kAdapterModel)) {
      return Unread(directory_, written, "an adapter's weights",
                    "Give the model that it was made for as --model, and this directory as "
                    "--adapter");
    }
    if (const UnreadFormat* const format = FormatOf(name); format != nullptr) {
      return Unread(directory_, written, format->what, AdviceFor(*format, directory_, written));
    }
    if (name.starts_with("model.ckpt") || name.starts_with("openvino_model")) {
      return Unread(directory_, written, "another framework's weights",
                    "Give the directory of safetensors that was made from it");
    }
    if (NameBeginsWithAny(name, kTrainingState) && name != "training_args.bin") {
      return Unread(directory_, written, "the state of a training",
                    "Its weights are missing: fetch the checkpoint again");
    }
    if (EndsWithAny(name, kTorchEnds)) {
      if (name == "training_args.bin") return absl::OkStatus();
      const std::string begin = FirstBytesOf(PathOf(written));
      // Tokens are stored in .bin files, too.
      if (absl::EndsWith(name, ".bin") && !IsNamedAsModel(name) && !begin.empty()) {
        return absl::OkStatus();
      }
      return Unread(directory_, written, WhatElse(name, begin),
                    "Give the model that it was made from, or fetch it again");
    }
    if (EndsWithAny(name, kSideEnds) || name[0] == '.') return absl::OkStatus();
    const auto found = FileSystem::Real().Stat(PathOf(written), SymbolicLink::kFollow);
    if (!found.ok() || found->size_bytes < kUnknownLargeBytes) return absl::OkStatus();
    return Unread(directory_, written,
                  absl::StrCat("of an unknown kind, ", FormatBytes(found->size_bytes)),
                  "If it is no weights, it belongs into another directory");
  }

  const std::string& directory_;
  FileNames files_, folders_;
};

// Whether the name of a file marks such a checkpoint.
bool IsOfDeepSpeed(absl::string_view name) {
  return name == "zero_to_fp32.py" || absl::StartsWith(name, "mp_rank_") ||
         absl::StartsWith(name, "zero_pp_rank_") || absl::StartsWith(name, "bf16_zero_pp_rank_");
}

bool IsOfFsdp(absl::string_view name) {
  return name == ".metadata" || absl::EndsWith(name, ".distcp");
}

template <typename IsOne>
bool HasOne(const std::string& directory, const IsOne& is_one) {
  return absl::c_any_of(FilesIn(directory), is_one);
}

}  // namespace

absl::StatusOr<WeightFiles> FindWeightFiles(const std::string& directory) {
  return WeightFinder(directory).Find();
}

bool CanHoldWeights(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return FormatOf(lower) != nullptr || IsTorchName(lower);
}

absl::Status DescribeShardedCheckpoint(const std::string& directory) {
  const auto refuse = [&](absl::string_view what, absl::string_view how, const FileNames& command) {
    return absl::InvalidArgumentError(absl::StrCat(directory, " has a checkpoint of ", what,
                                                   ", which is not read. ", how,
                                                   ShellLine(command)));
  };
  // FSDP's parts are in a folder of their own beside config.json, or that folder was given.
  FileNames folders = {directory};
  for (const std::string& name : FilesIn(directory)) {
    const std::string folder = absl::StrCat(directory, "/", name);
    if (name[0] != '.' && IsDirectory(folder)) folders.push_back(folder);
  }
  for (const std::string& folder : folders) {
    if (!HasOne(folder, IsOfFsdp)) continue;
    return refuse("FSDP (torch.distributed.checkpoint)", "PyTorch makes one file of it: ",
                  {"python3", "-m", "torch.distributed.checkpoint.format_utils", "dcp_to_torch",
                   folder, absl::StrCat(directory, "/", kTorchName)});
  }
  for (const std::string& folder : folders) {
    if (!HasOne(folder, IsOfDeepSpeed)) continue;
    const bool inside = absl::StartsWith(FileName(folder), "global_step");
    const std::string root = inside ? ParentPath(folder) : folder;
    FileNames command = {"python3", absl::StrCat(root, "/zero_to_fp32.py")};
    if (!Exists(command.back())) command = {"python3", "-m", "deepspeed.utils.zero_to_fp32"};
    command.insert(command.end(), {root, inside ? root : directory, "--safe_serialization"});
    return refuse("DeepSpeed", "DeepSpeed makes safetensors of it: ", command);
  }
  return absl::OkStatus();
}

}  // namespace spillway
