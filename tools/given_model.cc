#include "tools/given_model.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/shell_line.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"

extern char** environ;

namespace spillway {
namespace {

using Words = std::vector<std::string>;

// The program of that name on PATH; "" if there is none.
std::string FindProgram(const std::string& name) {
  for (const std::string& folder :
       Words(absl::StrSplit(EnvironmentVariable("PATH").value_or(""), ':'))) {
    const std::string path = absl::StrCat(folder.empty() ? "." : folder, "/", name);
    if (::access(path.c_str(), X_OK) == 0 && !IsDirectory(path)) return path;
  }
  return "";
}

// hf, or its former name.
std::string FindDownloader() {
  const std::string hf = FindProgram("hf");
  return hf.empty() ? FindProgram("huggingface-cli") : hf;
}

// Runs a program to its end. Its output is redirected to stderr: stdout is for this program's
// results.
absl::Status RunProgram(const std::string& program, const Words& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  const std::string line = absl::StrCat("`", ShellLine(words), "`");
  if (error != 0) return ErrnoStatus(error, absl::StrCat("run ", line));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return ErrnoStatus(errno, absl::StrCat("wait for ", line));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      line,
      WIFSIGNALED(status) ? absl::StrCat(" was ended by ", ::strsignal(WTERMSIG(status)))
                          : absl::StrCat(" ended with exit code ", WEXITSTATUS(status)),
      "; the lines above are what it said"));
}

absl::Status Download(const char* flag, const HubName& name) {
  const std::string program = FindDownloader();
  if (program.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--download runs `", ShellLine(DownloadCommand(name)),
                     "`, and there is no hf on PATH: pip install huggingface_hub"));
  }
  Words words = DownloadCommand(name);
  words[0] = FileName(program);
  LogInfo(absl::StrCat(flag, " ", name.repository, ": running ", ShellLine(words)));
  return RunProgram(program, words);
}

// The error for a model that the cache lacks, or has only partly.
absl::Status NotInCache(const char* flag, const std::string& given, const HubName& name,
                        const absl::Status& found) {
  const bool known = !FindDownloader().empty();
  return absl::Status(
      found.code(),
      absl::StrCat(flag, " ", given, ": ",
                   absl::IsNotFound(found) ? "there is no such directory, and " : "",
                   found.message(), ". `", ShellLine(DownloadCommand(name)), "` fetches it from ",
                   "Hugging Face's hub, and then the same command finds it",
                   known ? "; --download runs that first" : " (pip install huggingface_hub)"));
}

// Whether the first of two names is an existing folder, so that the second is missing there.
bool IsPathBelow(const std::string& given) {
  const size_t slash = given.find('/');
  return slash != std::string::npos && IsDirectory(given.substr(0, slash));
}

void LogFound(const std::string& given, const std::string& cache, const HubSnapshot& snapshot) {
  LogInfo(absl::StrCat(given, ": found in ", ShortPath(cache), " (snapshot ",
                       snapshot.commit.substr(0, 8), ")"));
}

}  // namespace

absl::Status ResolveGivenModel(const char* flag, HubFiles files, bool download, std::string& given,
                               bool logs) {
  if (IsDirectory(given)) {
    const auto of_cache = FindInRepositoryFolder(given, files);
    if (!of_cache) return absl::OkStatus();
    if (!of_cache->ok()) return Annotate(of_cache->status(), absl::StrCat(flag, " ", given));
    if (logs) LogFound(given, ParentPath(NormalPath(given)), **of_cache);
    given = (*of_cache)->directory;
    return absl::OkStatus();
  }
  const std::optional<HubName> name = ParseHubName(given);
  if (!name || Exists(given) || IsPathBelow(given)) return absl::OkStatus();
  const std::string cache = HubCacheDirectory();
  auto found = FindInHubCache(*name, cache, files);
  if (!found.ok() && download) {
    RETURN_IF_ERROR(Download(flag, *name));
    found = FindInHubCache(*name, cache, files);
  }
  if (!found.ok()) return NotInCache(flag, given, *name, found.status());
  if (logs) LogFound(given, cache, *found);
  given = found->directory;
  return absl::OkStatus();
}

absl::Status ResolveGivenModels(HubFiles model_files, bool logs, TrainFlags& flags) {
  const auto resolve = [&](const char* flag, HubFiles files, TrainFlags::Text& given) {
    return given ? ResolveGivenModel(flag, files, flags.download, *given, logs) : absl::OkStatus();
  };
  RETURN_IF_ERROR(resolve("--model", model_files, flags.model));
  RETURN_IF_ERROR(resolve("--tokenizer", HubFiles::kTokenizer, flags.tokenizer));
  return resolve("--adapter", HubFiles::kAdapter, flags.adapter);
}

}  // namespace spillway
