#include "engine/data/data_file.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/base/nearest.h"
#include "engine/base/shell_line.h"
#include "engine/base/utf8_repair.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

using Names = std::vector<std::string>;

constexpr size_t kHeadBytes = 4096;
constexpr size_t kShownNames = 8;

// An unsupported format.
struct Format {
  const char* end;          // suffix of file names; "": none
  absl::string_view magic;  // first bytes of the content; "": not checked
  const char* what;
  const char* command;  // the command that converts IN to OUT
  const char* out_end;  // suffix of OUT's name; "": IN's name without `end`
};

constexpr absl::string_view kZip("PK\x03\x04", 4);
constexpr const char* kParquetCommand =
    "python3 -c \"import pandas; pandas.read_parquet(IN).to_json(OUT, orient='records', "
    "lines=True, force_ascii=False)\"";
constexpr const char* kArrowCommand =
    "python3 -c \"import datasets; datasets.Dataset.from_file(IN).to_json(OUT)\"";

constexpr Format kFormats[] = {
    {".parquet", "PAR1", "a parquet file", kParquetCommand, ".jsonl"},
    {".arrow", "ARROW1", "an Arrow file", kArrowCommand, ".jsonl"},
    {".gz", "\x1f\x8b", "compressed by gzip", "gunzip -c IN > OUT", ""},
    {".zst", "\x28\xb5\x2f\xfd", "compressed by zstd", "zstd -dc IN > OUT", ""},
    {".bz2", "BZh", "compressed by bzip2", "bunzip2 -c IN > OUT", ""},
    {".xz",
     absl::string_view("\xfd"
                       "7zXZ\0",
                       6),
     "compressed by xz", "xz -dc IN > OUT", ""},
    {".xlsx", kZip, "an Excel workbook",
     "python3 -c \"import pandas; pandas.read_excel(IN).to_csv(OUT, index=False)\"", ".csv"},
    {".npz", kZip, "an archive of NumPy arrays",
     "python3 -c \"import numpy; a = numpy.load(IN); numpy.save(OUT, a[a.files[0]])\"", ".npy"},
    {".zip", kZip, "a zip archive", "unzip IN", ""},
    {".tgz", "", "a compressed tar archive", "tar xf IN", ""},
    {".tar", "", "a tar archive", "tar xf IN", ""},
    {".pkl", "", "a Python pickle",
     "python3 -c \"import pandas; pandas.read_pickle(IN).to_json(OUT, orient='records', "
     "lines=True)\"",
     ".jsonl"},
    {".safetensors", "", "a file of weights", "", ""},
    {".pt", "", "a file of PyTorch's",
     "python3 -c \"import numpy, torch; numpy.save(OUT, torch.load(IN).numpy())\"", ".npy"},
    {".pdf", "", "a PDF", "pdftotext IN OUT", ".txt"},
};

const Names& EndsOf(DataUse use) {
  static const auto& ends = *new std::vector<Names>{{".txt", ".jsonl", ".bin", ".npy"},
                                                    {".txt", ".jsonl"},
                                                    {".jsonl", ".csv", ".tsv"},
                                                    {".jsonl"},
                                                    {".jsonl"},
                                                    {".jsonl", ".json"}};
  return ends[static_cast<size_t>(use)];
}

const char* ReadFormats(DataUse use) {
  switch (use) {
    case DataUse::kTokens:
      return ".txt (text), .jsonl (texts, prompts with completions, or messages), .bin (raw uint16 "
             "tokens) or .npy (an array of tokens)";
    case DataUse::kText:
      return ".txt (text) or .jsonl (texts); .bin and .npy hold tokens already";
    case DataUse::kRows:
      return ".jsonl, .csv or .tsv (a row a text)";
    case DataUse::kWords:
      return ".jsonl (a list of words and a list of labels a row)";
    case DataUse::kPrompts:
      return ".jsonl (a prompt a row) or .txt (a prompt a line)";
    case DataUse::kQuestions:
      return ".jsonl (a question a row) or .json (as SQuAD's files are)";
  }
  return "";
}

bool HasEnd(const std::string& path, const Names& ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](const std::string& end) { return absl::EndsWith(path, end); });
}

bool IsTextName(const std::string& path) {
  return HasEnd(path, {".txt", ".jsonl", ".json", ".csv", ".tsv"});
}

// Replaces a suffix: "x.jsonl" for "x.json"; other names get it appended.
std::string WithEnd(const std::string& path, absl::string_view end, absl::string_view other) {
  return absl::EndsWith(path, end) ? absl::StrCat(path.substr(0, path.size() - end.size()), other)
                                   : path + std::string(other);
}

// Inserts a word: "x.utf8.txt" for "x.txt".
std::string WithWord(const std::string& path, absl::string_view word) {
  const size_t dot = path.rfind('.');
  const size_t slash = path.rfind('/');
  if (dot == std::string::npos || (slash != std::string::npos && dot < slash)) {
    return absl::StrCat(path, ".", word);
  }
  return absl::StrCat(path.substr(0, dot), ".", word, path.substr(dot));
}

// Quotes a string for Python code inside a shell's double quotes.
std::string PythonText(const std::string& text) {
  return absl::StrCat(
      "'",
      absl::StrReplaceAll(
          text, {{"\\", "\\\\\\\\"}, {"'", "\\\\'"}, {"\"", "\\\""}, {"$", "\\$"}, {"`", "\\`"}}),
      "'");
}

std::string Command(absl::string_view command, const std::string& in, const std::string& out) {
  const bool python = absl::StartsWith(command, "python3 -c \"");
  const auto word = [&](const std::string& path) {
    return python ? PythonText(path) : ShellLine({path});
  };
  return absl::StrReplaceAll(command, {{"IN", word(in)}, {"OUT", word(out)}});
}

std::string TryCommand(absl::string_view command, const std::string& in, const std::string& out) {
  return absl::StrCat("`", Command(command, in, out), "`");
}

absl::Status Wrong(absl::string_view flag, const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": ", why));
}

absl::Status Missing(absl::string_view flag, const std::string& path, absl::string_view why) {
  return absl::NotFoundError(absl::StrCat(flag, " ", path, ": ", why));
}

std::string ShownSome(const Names& names) {
  const size_t count = std::min(names.size(), kShownNames);
  std::string shown =
      absl::StrJoin(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count), ", ");
  if (count < names.size()) absl::StrAppend(&shown, ", ... (", names.size(), " in all)");
  return shown;
}

Names Matches(const std::string& pattern) {
  glob_t found;
  Names names;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  return names;
}

bool IsStandardInput(const std::string& path) {
  return path == "-" || path == "/dev/stdin" || absl::StartsWith(path, "/dev/fd/") ||
         absl::StartsWith(path, "/proc/self/fd/");
}

constexpr absl::string_view kReadTwice =
    "data are read more than once, and again on --resume, so they must be in a file";

absl::Status DescribeMissing(absl::string_view flag, const std::string& path) {
  if (path.empty()) return Missing(flag, "''", "the name is empty");
  if (IsStandardInput(path)) {
    return Wrong(flag, path,
                 absl::StrCat("standard input is not read: ", kReadTwice,
                              ": `cat > data.jsonl`, and ", flag, " data.jsonl"));
  }
  if (path.find_first_of("*?[") != std::string::npos) {
    const Names matches = Matches(path);
    if (matches.empty()) return Missing(flag, path, "no file's name matches this pattern");
    return Missing(flag, ShellLine({path}),
                   absl::StrCat("there is no file of this name. A shell expands a pattern where it "
                                "is not quoted: ",
                                flag, " ", path, ", which are ", ShownSome(matches)));
  }
  if (absl::StartsWith(path, "~")) {
    return Missing(flag, path,
                   "there is no such file: a shell replaces ~ where it begins a word and is not "
                   "quoted");
  }
  double part = 0;
  if (absl::SimpleAtod(path, &part)) {
    return Missing(flag, path,
                   "there is no such file, and a part of other data cannot be named by a number: "
                   "`head -n 100 all.jsonl > held_out.jsonl; tail -n +101 all.jsonl > "
                   "train.jsonl` makes two files of one");
  }
  char target[PATH_MAX];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof(target));
  if (length > 0) {
    return Missing(
        flag, path,
        absl::StrCat("a symbolic link to ", absl::string_view(target, static_cast<size_t>(length)),
                     ", which is not there"));
  }
  std::string folder = ParentPath(path);
  if (!IsDirectory(folder)) {
    while (!IsDirectory(ParentPath(folder)) && folder != ParentPath(folder)) {
      folder = ParentPath(folder);
    }
    const bool of_hub = !absl::StartsWith(path, "/") &&
                        Names(absl::StrSplit(path, '/')).size() == 2 &&
                        path.find('.') == std::string::npos;
    return Missing(
        flag, path,
        of_hub ? absl::StrCat("there is no such file. If it is a data set of Hugging Face's hub: "
                              "`python3 -c \"import datasets; datasets.load_dataset(",
                              PythonText(path), ", split='train').to_json('data.jsonl')\"`, and ",
                              flag, " data.jsonl")
               : absl::StrCat("there is no such file: ", folder, " does not exist"));
  }
  const Names names = FileSystem::Real().List(folder).value_or(Names());
  const std::string nearest = NearestName(FileName(path), names);
  return Missing(
      flag, path,
      absl::StrCat("there is no such file",
                   nearest.empty() ? absl::StrCat("; ", folder == "." ? "this folder" : folder,
                                                  " holds ", ShownEntries(folder))
                                   : absl::StrCat("; did you mean ",
                                                  absl::StrContains(path, '/')
                                                      ? absl::StrCat(folder, "/", nearest)
                                                      : nearest,
                                                  "?")));
}

// Describes a folder that was given in place of a file.
absl::Status DescribeFolder(absl::string_view flag, const std::string& path, DataUse use) {
  const Names names = FileSystem::Real().List(path).value_or(Names());
  const auto has = [&](absl::string_view name) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& one) { return absl::EndsWith(one, name); });
  };
  const std::string out = absl::StrCat(FileName(NormalPath(path)), ".jsonl");
  const auto saved = [&](absl::string_view split) {
    return absl::StrCat(
        "a data set as save_to_disk of datasets writes it: `python3 -c \"import "
        "datasets; datasets.load_from_disk(",
        PythonText(path), ")", split, ".to_json(", PythonText(out), ")\"`, and ", flag, " ",
        ShellLine({out}));
  };
  if (has("dataset_dict.json")) return Wrong(flag, path, saved("['train']"));
  if (has("state.json") || has(".arrow")) return Wrong(flag, path, saved(""));
  const std::string shown = ShownEntries(path);
  if (has(".parquet")) {
    return Wrong(flag, path,
                 absl::StrCat("a folder of parquet files: `python3 -c \"import pandas; "
                              "pandas.read_parquet(",
                              PythonText(path), ").to_json(", PythonText(out),
                              ", orient='records', lines=True, force_ascii=False)\"`, and ", flag,
                              " ", ShellLine({out})));
  }
  for (const std::string& end : EndsOf(use)) {
    if (!has(end)) continue;
    const std::string prefix = absl::EndsWith(path, "/") ? path : path + "/";
    return Wrong(flag, path,
                 absl::StrCat("a folder, and files are read: ", flag, " ", ShellLine({prefix}), "*",
                              end, "; it holds ", shown));
  }
  return Wrong(
      flag, path,
      absl::StrCat("a folder, and files are read: ", ReadFormats(use), "; it holds ", shown));
}

std::string Head(const std::string& path) {
  std::string head(kHeadBytes, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(in.gcount()));
  return head;
}

const Format* FormatOf(const std::string& path, absl::string_view head) {
  const auto is_magic = [&](const Format& format) {
    if (format.magic.empty() || !absl::StartsWith(head, format.magic)) return false;
    // Text may start with these letters, too.
    const bool letters = absl::ascii_isalpha(format.magic[0]);
    return !letters || !IsTextName(path) || absl::StrContains(head, absl::string_view("\0", 1));
  };
  for (const Format& format : kFormats) {
    if (absl::EndsWith(absl::AsciiStrToLower(path), format.end)) return &format;
  }
  for (const Format& format : kFormats) {
    if (!absl::EndsWith(path, ".npy") && !absl::EndsWith(path, ".bin") && is_magic(format)) {
      return format.magic == kZip ? &*std::find_if(std::begin(kFormats), std::end(kFormats),
                                                   [](const Format& one) {
                                                     return absl::string_view(one.end) == ".zip";
                                                   })
                                  : &format;
    }
  }
  return nullptr;
}

absl::Status DescribeFormat(absl::string_view flag, const std::string& path, const Format& format) {
  if (*format.command == '\0') return Wrong(flag, path, absl::StrCat(format.what, ", and no data"));
  const bool has_end = absl::EndsWith(path, format.end);
  const std::string out = *format.out_end != '\0' ? WithEnd(path, format.end, format.out_end)
                          : has_end               ? WithEnd(path, format.end, "")
                                                  : WithWord(path, "plain");
  const bool makes_out = absl::StrContains(format.command, "OUT");
  return Wrong(flag, path,
               absl::StrCat(format.what,
                            ", which is not read as it is: ", TryCommand(format.command, path, out),
                            makes_out ? absl::StrCat(", and ", flag, " ", ShellLine({out}))
                                      : absl::StrCat(", and ", flag, " with the file in it")));
}

struct ByteOrder {
  absl::string_view mark;
  const char* name;
  const char* encoding;  // iconv's name
};
// Longer marks first: one starts with a shorter one.
constexpr ByteOrder kByteOrders[] = {{absl::string_view("\xff\xfe\0\0", 4), "UTF-32", "utf-32"},
                                     {absl::string_view("\0\0\xfe\xff", 4), "UTF-32", "utf-32"},
                                     {"\xff\xfe", "UTF-16", "utf-16"},
                                     {"\xfe\xff", "UTF-16", "utf-16"}};

std::string IconvCommand(const char* encoding, const std::string& path, const std::string& out) {
  return absl::StrCat("`iconv -f ", encoding, " -t utf-8 ", ShellLine({path}), " > ",
                      ShellLine({out}), "`");
}

absl::Status CheckEncoding(absl::string_view flag, const std::string& path,
                           absl::string_view head) {
  const std::string out = WithWord(path, "utf8");
  for (const ByteOrder& order : kByteOrders) {
    if (!absl::StartsWith(head, order.mark)) continue;
    return Wrong(flag, path,
                 absl::StrCat("its text is ", order.name,
                              ", and UTF-8 is read: ", IconvCommand(order.encoding, path, out),
                              ", and ", flag, " ", ShellLine({out})));
  }
  size_t zeros[2] = {0, 0};
  for (size_t i = 0; i < head.size(); ++i) zeros[i % 2] += head[i] == '\0';
  const size_t all = zeros[0] + zeros[1];
  if (all < head.size() / 4 || all == 0) return absl::OkStatus();
  const std::string seen =
      absl::StrCat(all, " of its first ", head.size(), " bytes are 0, as in ",
                   "UTF-16 without a byte order mark; if it is: ",
                   IconvCommand(zeros[1] > zeros[0] ? "utf-16le" : "utf-16be", path, out));
  if (absl::EndsWith(path, ".jsonl")) return Wrong(flag, path, seen);  // JSON has none
  LogWarning(absl::StrCat(flag, " ", path, ": ", seen));
  return absl::OkStatus();
}

// The key of the array that is a JSON object's first value: "data" in {"data": [...]}; or "".
std::string FirstArrayKey(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "{")) return "";
  text = absl::StripLeadingAsciiWhitespace(text);
  if (!absl::ConsumePrefix(&text, "\"")) return "";
  const absl::string_view key = text.substr(0, text.find('"'));
  text = absl::StripLeadingAsciiWhitespace(text.substr(std::min(text.size(), key.size() + 1)));
  if (!absl::ConsumePrefix(&text, ":")) return "";
  const bool plain = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_';
  });
  text = absl::StripLeadingAsciiWhitespace(text);
  return plain && absl::StartsWith(text, "[") ? std::string(key) : "";
}

// A .json is one value; a .jsonl has one per line.
absl::Status CheckJson(absl::string_view flag, const std::string& path, absl::string_view head) {
  absl::ConsumePrefix(&head, "\xef\xbb\xbf");
  const absl::string_view text = absl::StripAsciiWhitespace(head);
  const bool lines = absl::EndsWith(path, ".jsonl");
  const std::string out = lines ? WithWord(path, "lines") : WithEnd(path, ".json", ".jsonl");
  const auto use = [&](absl::string_view what, const std::string& command) {
    return Wrong(flag, path,
                 absl::StrCat(what, "; .jsonl has an object a line: `", command, "`, and ", flag,
                              " ", ShellLine({out})));
  };
  const auto jq = [&](absl::string_view filter) {
    return absl::StrCat("jq -c ", filter, " ", ShellLine({path}), " > ", ShellLine({out}));
  };
  if (absl::StartsWith(text, "[")) {
    // An array on a line of its own is refused with the line's number, like any other non-object.
    const absl::string_view first = text.substr(0, text.find('\n'));
    const bool whole = lines && absl::EndsWith(absl::StripTrailingAsciiWhitespace(first), "]");
    if (!whole || text.size() == first.size()) return use("a JSON array", jq("'.[]'"));
    return absl::OkStatus();
  }
  const absl::string_view first =
      absl::StripTrailingAsciiWhitespace(text.substr(0, text.find('\n')));
  if (lines) {
    const bool cut = first == "{" || (absl::StartsWith(first, "{") && absl::EndsWith(first, ",") &&
                                      first.size() < text.size());
    return cut ? use("JSON with an object over several lines", jq(".")) : absl::OkStatus();
  }
  if (absl::EndsWith(first, "}") && text.size() > first.size()) {
    return use("JSON with an object a line, under another name",
               absl::StrCat("cp ", ShellLine({path}), " ", ShellLine({out})));
  }
  if (const std::string key = FirstArrayKey(text); !key.empty()) {
    return use(absl::StrCat("a JSON object whose \"", key, "\" is an array"),
               jq(absl::StrCat("'.", key, "[]'")));
  }
  return use("one JSON value", jq("."));
}

// Describes a file whose name does not tell its format.
absl::Status DescribeName(absl::string_view flag, const std::string& path, absl::string_view head,
                          DataUse use) {
  const bool table = absl::EndsWith(path, ".csv") || absl::EndsWith(path, ".tsv");
  if (table && use != DataUse::kRows) {
    const char* const command =
        absl::EndsWith(path, ".csv")
            ? "python3 -c \"import csv, json; [print(json.dumps(row)) for row in "
              "csv.DictReader(open(IN))]\" > OUTFILE"
            : "python3 -c \"import csv, json; [print(json.dumps(row)) for row in "
              "csv.DictReader(open(IN), delimiter='\\t', quoting=csv.QUOTE_NONE)]\" > OUTFILE";
    const std::string out = WithEnd(path, path.substr(path.size() - 4), ".jsonl");
    return Wrong(
        flag, path,
        absl::StrCat(
            "a table, and what is read here is ", ReadFormats(use), ": `",
            absl::StrReplaceAll(command, {{"IN", PythonText(path)}, {"OUTFILE", ShellLine({out})}}),
            "`, and ", flag, " ", ShellLine({out}),
            use == DataUse::kTokens ? "; to classify its texts, give --model a bert, roberta or "
                                      "distilbert, and --task classify"
                                    : ""));
  }
  std::string text =
      absl::StrCat("the end of its name is none of those that are read: ", ReadFormats(use));
  const bool is_text = head.size() > 0 && ValidUtf8Prefix(head) + 4 > head.size() &&
                       !absl::StrContains(head, absl::string_view("\0", 1));
  if (is_text && HasEnd(".txt", EndsOf(use)) && !table) {
    absl::StrAppend(&text, ". It looks like text: `cp ", ShellLine({path, path + ".txt"}),
                    "`, and ", flag, " ", ShellLine({path + ".txt"}));
  }
  return Wrong(flag, path, text);
}

}  // namespace

std::string ShownEntries(const std::string& directory) {
  Names names = FileSystem::Real().List(directory).value_or(Names());
  for (std::string& name : names) {
    if (IsDirectory(absl::StrCat(directory, "/", name))) name += "/";
  }
  return names.empty() ? "nothing" : ShownSome(names);
}

absl::Status CheckDataExists(absl::string_view flag, const std::string& path) {
  struct stat info;
  if (!path.empty() && path != "-" && ::stat(path.c_str(), &info) == 0) return absl::OkStatus();
  const int error = errno;
  if (path.empty() || path == "-" || error == ENOENT) return DescribeMissing(flag, path);
  return ErrnoStatus(error, absl::StrCat(flag, " ", path));
}

absl::Status CheckDataFile(absl::string_view flag, const std::string& path, DataUse use) {
  RETURN_IF_ERROR(CheckDataExists(flag, path));
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat(flag, " ", path));
  if (S_ISDIR(info.st_mode)) return DescribeFolder(flag, path, use);
  if (!S_ISREG(info.st_mode)) {
    return Wrong(flag, path,
                 absl::StrCat("a ", S_ISFIFO(info.st_mode) ? "pipe" : "device", ": ", kReadTwice,
                              ": write them into one first"));
  }
  const std::string head = Head(path);
  if (head.empty() && info.st_size > 0) return absl::OkStatus();  // opening it reports the reason
  if (const Format* const format = FormatOf(path, head)) return DescribeFormat(flag, path, *format);
  if (IsTextName(path)) RETURN_IF_ERROR(CheckEncoding(flag, path, head));
  const bool is_whole = use == DataUse::kQuestions && absl::EndsWith(path, ".json");
  if (!is_whole && HasEnd(path, {".jsonl", ".json"})) {
    RETURN_IF_ERROR(CheckJson(flag, path, head));
  }
  const bool any_text = use == DataUse::kPrompts && !HasEnd(path, {".csv", ".tsv", ".bin", ".npy"});
  return any_text || HasEnd(path, EndsOf(use)) ? absl::OkStatus()
                                               : DescribeName(flag, path, head, use);
}

absl::Status CheckDataFiles(absl::string_view flag, const std::vector<std::string>& paths,
                            DataUse use) {
  for (const std::string& path : paths) RETURN_IF_ERROR(CheckDataFile(flag, path, use));
  return absl::OkStatus();
}

}  // namespace spillway
