#include "engine/data/tokenize_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/data/data_encoder.h"
#include "engine/data/token_writer.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"
#include "io/file_system.h"
#include "io/own_files.h"

namespace spillway {
namespace {

absl::Status CheckFiles(const TokenizeOptions& options, uint64_t* total_bytes) {
  const bool bin = absl::EndsWith(options.out, ".bin");
  if (!bin && !absl::EndsWith(options.out, ".npy")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--out ", options.out,
        ": its name's end says what is written: .bin (raw uint16 tokens) or ", ".npy (an array)"));
  }
  if (options.files.empty()) return absl::InvalidArgumentError("no data files are given");
  *total_bytes = 0;
  for (const std::string& file : options.files) {
    if (!IsText(file)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": .txt and .jsonl are encoded; .bin and .npy hold tokens already"));
    }
    if (SameFile(file, options.out)) {
      return absl::InvalidArgumentError(absl::StrCat("--out ", options.out, " is one of --data"));
    }
    struct stat info;
    if (::stat(file.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("open ", file));
    *total_bytes += static_cast<uint64_t>(info.st_size);
  }
  return absl::OkStatus();
}

// The new file, under a temporary name until it is complete. Its mode follows the umask: it is the
// user's, and not a run's own.
struct Output {
  Output(std::string target, std::string temporary, UniqueFd descriptor)
      : out(std::move(target)), name(std::move(temporary)), fd(std::move(descriptor)) {}
  Output(Output&&) = default;
  ~Output() {
    if (fd.valid()) FileSystem::Real().Remove(name).IgnoreError();
  }

  absl::Status Finish() {
    if (RetryOnSignal([&] { return ::fdatasync(fd.get()); }) != 0) {
      return ErrnoStatus(errno, absl::StrCat("sync ", name));
    }
    RETURN_IF_ERROR(FileSystem::Real().Rename(name, out));
    // Network filesystems report a full disk only here.
    if (::close(fd.Release()) != 0 && errno != EINTR) {
      return ErrnoStatus(errno, absl::StrCat("close ", out));
    }
    return FileSystem::Real().SyncDirectory(ParentPath(out));
  }

  std::string out, name;
  UniqueFd fd;
};

absl::StatusOr<Output> CreateOutput(const std::string& out) {
  ASSIGN_OR_RETURN(const uint64_t random, FileSystem::Real().RandomNumber());
  const std::string name = AtomicWriteName(out, random);
  UniqueFd fd(RetryOnSignal(
      [&] { return ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("create ", name));
  return Output(out, name, std::move(fd));
}

absl::Status EncodeAll(const TokenizeOptions& options, uint64_t total_bytes, TokenWriter* writer) {
  const bool bin = absl::EndsWith(options.out, ".bin");
  uint64_t done_bytes = 0;
  for (const std::string& file : options.files) {
    DataSink sink;
    sink.take = [&](const std::vector<uint32_t>& tokens, bool carry_loss) -> absl::Status {
      if (!carry_loss) {
        return absl::InvalidArgumentError(
            "a prompt, or a conversation: .bin and .npy cannot say what of it carries no loss; "
            "give the .jsonl to train as it is");
      }
      const auto large =
          std::find_if(tokens.begin(), tokens.end(), [](uint32_t token) { return token > 65535; });
      if (bin && large != tokens.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            file, " has the token ", *large, ", and a .bin file holds up to 65535 (the ",
            "tokenizer has ", options.tokenizer->vocabulary_size(), " tokens): write a .npy file"));
      }
      return writer->Append(tokens);
    };
    sink.progress = [&](uint64_t bytes) {
      done_bytes += bytes;
      return options.progress ? options.progress(done_bytes, total_bytes) : absl::OkStatus();
    };
    RETURN_IF_ERROR(EncodeData(file, *options.tokenizer, sink));
  }
  return writer->Flush();
}

}  // namespace

std::string NpyHeader(int64_t tokens, int width_bytes) {
  std::string header = absl::StrFormat(
      "{'descr': '<u%d', 'fortran_order': False, 'shape': (%d,), }", width_bytes, tokens);
  header.resize(kNpyHeaderBytes - 10 - 1, ' ');
  return absl::StrCat(absl::string_view("\x93NUMPY\x01\x00", 8),
                      std::string(1, static_cast<char>(kNpyHeaderBytes - 10)), std::string(1, '\0'),
                      header, "\n");
}

absl::StatusOr<TokenizeResult> TokenizeFiles(const TokenizeOptions& options) {
  SPILLWAY_CHECK(options.tokenizer != nullptr);
  const auto began = std::chrono::steady_clock::now();
  TokenizeResult result;
  RETURN_IF_ERROR(CheckFiles(options, &result.text_bytes));
  const bool npy = absl::EndsWith(options.out, ".npy");
  result.width_bytes = npy && options.tokenizer->vocabulary_size() > 65536 ? 4 : 2;
  auto out = ResolveForWriting(FileSystem::Real(), options.out);
  if (!out.ok()) return Annotate(out.status(), "--out");
  ASSIGN_OR_RETURN(Output output, CreateOutput(*out));
  const auto write_header = [&] {
    const std::string header = NpyHeader(result.tokens, result.width_bytes);
    const bool begins = ::lseek(output.fd.get(), 0, SEEK_SET) == 0;
    const int error = begins ? WriteAll(output.fd.get(), header.data(), header.size()) : errno;
    return error == 0 ? absl::OkStatus() : ErrnoStatus(error, absl::StrCat("write ", output.name));
  };
  if (npy) RETURN_IF_ERROR(write_header());  // the number of tokens is filled in at the end
  TokenWriter writer(
      [&](absl::string_view bytes) {
        const int error = WriteAll(output.fd.get(), bytes.data(), bytes.size());
        return error == 0 ? absl::OkStatus()
                          : ErrnoStatus(error, absl::StrCat("write ", output.name));
      },
      result.width_bytes);
  RETURN_IF_ERROR(EncodeAll(options, result.text_bytes, &writer));
  result.tokens = writer.tokens();
  if (result.tokens == 0) return absl::InvalidArgumentError("the data files hold no text");
  if (npy) RETURN_IF_ERROR(write_header());
  RETURN_IF_ERROR(output.Finish());
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return result;
}

}  // namespace spillway
