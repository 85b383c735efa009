// spillway tokenize: text files made into one file of tokens.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/stop_signal.h"
#include "engine/data/data_file.h"
#include "engine/data/encode_progress.h"
#include "engine/data/load_tokenizer.h"
#include "engine/data/tokenize_files.h"
#include "engine/machine/memory_limits.h"
#include "engine/tokenizers/tokenizer.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/base/terminal.h"
#include "io/file_system.h"
#include "nlohmann/json.hpp"
#include "tools/commands.h"
#include "tools/given_model.h"

namespace spillway {
namespace {

struct TokenizeFlags {
  std::string tokenizer, out, save_tokenizer;
  std::vector<std::string> data;
  bool as_json = false, download = false;
};

absl::Status SaveTokenizer(const Tokenizer& tokenizer, const std::string& directory) {
  const int error = CreateSharedDirectories(directory);
  if (error != 0) return ErrnoStatus(error, absl::StrCat("create ", directory));
  return tokenizer.Save(directory);
}

void PrintResult(const TokenizeFlags& flags, const Tokenizer& tokenizer,
                 const TokenizeResult& result) {
  const auto bytes = static_cast<double>(result.text_bytes);
  const auto tokens = static_cast<double>(result.tokens);
  if (flags.as_json) {
    const nlohmann::json json = {{"out", flags.out},
                                 {"tokens", result.tokens},
                                 {"bytes", result.text_bytes},
                                 {"tokens_per_byte", tokens / bytes},
                                 {"seconds", result.seconds},
                                 {"bytes_per_second", bytes / result.seconds},
                                 {"vocabulary", tokenizer.vocabulary_size()},
                                 {"dtype", result.width_bytes == 2 ? "uint16" : "uint32"},
                                 {"tokenizer", tokenizer.fingerprint()},
                                 {"peak_bytes", PeakResidentBytes()}};
    std::printf("%s\n",
                json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return;
  }
  absl::PrintF("%s: %d tokens (uint%d) from %s, %.3f tokens a byte, %.1f MB/s\n",
               ShownText(flags.out), result.tokens, 8 * result.width_bytes,
               FormatBytes(result.text_bytes), tokens / bytes, bytes / result.seconds * 1e-6);
}

CommandOutcome RunTokenize(const TokenizeFlags& flags) {
  // There is no model here to take one from; a folder of that name is meant.
  std::string choice = flags.tokenizer == "model" ? "./model" : flags.tokenizer;
  absl::Status status =
      ResolveGivenModel("--tokenizer", HubFiles::kTokenizer, flags.download, choice);
  if (status.ok()) status = CheckDataFiles("--data", flags.data, DataUse::kText);
  if (!status.ok()) return {status};
  const auto tokenizer = MakeTokenizer(choice, "", flags.data);
  if (!tokenizer.ok()) return {tokenizer.status()};
  const StopSignal signals;
  TokenizeOptions options;
  options.files = flags.data;
  options.tokenizer = tokenizer->get();
  options.out = flags.out;
  absl::StatusOr<TokenizeResult> result;
  {
    std::optional<EncodeProgress> progress;
    options.progress = [&](uint64_t done_bytes, uint64_t total_bytes) -> absl::Status {
      if (StopSignal::received() != 0) {
        return absl::CancelledError(absl::StrCat(
            "stopped by ", StopSignal::Name(StopSignal::received()), ": nothing is written"));
      }
      if (!progress) progress.emplace("MB encoded", total_bytes);
      progress->Update(done_bytes);
      return absl::OkStatus();
    };
    result = TokenizeFiles(options);
  }
  if (!result.ok()) return {result.status()};
  if (!flags.save_tokenizer.empty()) {
    const absl::Status saved = SaveTokenizer(**tokenizer, flags.save_tokenizer);
    if (!saved.ok()) return {saved};
  } else if (flags.tokenizer == "chars") {
    LogWarning(absl::StrCat("which character has which token is nowhere but in the texts; ",
                            "--save-tokenizer DIR keeps it"));
  }
  PrintResult(flags, **tokenizer, *result);
  return {};
}

}  // namespace

void AddTokenizeCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command = app.add_subcommand("tokenize", "Make a file of tokens from text");
  auto flags = std::make_shared<TokenizeFlags>();
  command
      ->add_option(
          "--tokenizer", flags->tokenizer,
          "directory with a tokenizer.json, ORG/NAME in the hub's cache, or chars or bytes")
      ->type_name("chars|bytes|DIR")
      ->required();
  command->add_flag("--download", flags->download, kDownloadHelp);
  command->add_option("--data", flags->data, "text: .txt, .jsonl; several follow one another")
      ->type_name("FILE...")
      ->required();
  command
      ->add_option("--out", flags->out, "FILE.bin (raw uint16, token ids up to 65535) or FILE.npy")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--save-tokenizer", flags->save_tokenizer,
                   "put the tokenizer's files into this directory")
      ->type_name("DIR");
  command->add_flag("--json", flags->as_json, "one JSON object on stdout");
  command->footer(
      "Example:\n  spillway tokenize --tokenizer gpt2/ --data corpus.txt --out corpus.bin\n"
      "  spillway train --model gpt2/ --data corpus.bin --output run");
  command->callback([run, flags] { *run = [flags] { return RunTokenize(*flags); }; });
}

}  // namespace spillway
