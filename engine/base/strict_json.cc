#include "engine/base/strict_json.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/relaxed_json.h"
#include "engine/base/stop_signal.h"
#include "engine/base/work_count.h"
#include "io/base/status.h"
#include "io/file.h"

namespace spillway {
namespace {

using nlohmann::json;

// An input iterator that records how far the parser has read.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    *reached_ = at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ != b.at_;
  }

 private:
  const char* at_;
  const char** reached_;
};

// Limit for the pointers of all keys: more than any settings file needs.
constexpr size_t kPointerBytes = 64u << 10;
constexpr size_t kPointerBytesPerByte = 16;
constexpr size_t kMostPointerBytes = 8u << 20;
// Longer pointers are built only while their total is below the limit for lines. Otherwise, with
// keys of maximum length and nesting, one pointer would have megabytes, and each of millions of
// keys below would copy it.
constexpr size_t kShortPointerBytes = 1u << 10;
// Values parsed between checks for a signal.
constexpr size_t kValuesAtOnce = 4096;
// Memory of a value or key besides its characters: a node of a map, or a place in a growing vector.
constexpr size_t kNodeBytes = 64;

// Builds the document from the parser's events. A method that returns false ends the parse, and
// error() has the reason.
class Builder : public json::json_sax_t {
 public:
  Builder(absl::string_view text, const char* const* reached, JsonDocument* document,
          const JsonLimits& limits)
      : text_(text),
        reached_(reached),
        document_(document),
        limits_(limits),
        pointer_bytes_left_(
            std::min(kMostPointerBytes, kPointerBytes + kPointerBytesPerByte * text.size())),
        long_pointer_bytes_left_(pointer_bytes_left_),
        line_(limits.first_line),
        error_line_(limits.first_line) {}

  const std::string& error() const { return error_; }
  int error_line() const { return error_line_; }
  bool given_up() const { return given_up_; }

  bool null() override { return Value(nullptr); }
  bool boolean(bool value) override { return Value(value); }
  bool number_integer(number_integer_t value) override { return Value(value); }
  bool number_unsigned(number_unsigned_t value) override { return Value(value); }
  bool number_float(number_float_t value, const string_t&) override { return Value(value); }
  bool string(string_t& value) override {
    if (skips()) return Value(nullptr);
    return (stream_ != nullptr || Count(value.size())) && Value(std::move(value));
  }
  bool binary(binary_t&) override { return Fail("binary values are not JSON"); }
  bool start_object(std::size_t) override { return Open(false); }
  bool start_array(std::size_t) override { return Open(true); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (skipped_levels_ > 0) return true;
    if (stream_ != nullptr) return Told(stream_->Key(std::move(name)));
    Level& level = levels_.back();
    if (name.size() > limits_.max_key_bytes) {
      return Fail(absl::StrCat("a key of ", name.size(), " bytes; at most ", limits_.max_key_bytes,
                               " are read"));
    }
    if (level.value->contains(name)) {
      const int first = document_->LineOf(PointerIn(level, name));
      return Fail(absl::StrCat(
          "the key \"", name, "\" appears twice",
          limits_.remembers_lines ? absl::StrCat(" (first in line ", first, ")") : ""));
    }
    if (!Count(name.size() + kNodeBytes)) return false;
    level.key = std::move(name);
    skips_next_ = limits_.keep && levels_.size() == 1 && !limits_.keep(level.key);
    if (limits_.remembers_lines) Remember(PointerIn(level, level.key));
    return GoesOn();
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& e) override {
    // `position` is the wrong byte, counted from 1.
    error_line_ = LineAt(std::min(position - std::min<size_t>(position, 1), text_.size()));
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..."
    const std::string what = e.what();
    const absl::string_view mark = what.find(": ") != std::string::npos ? ": " : "] ";
    const size_t begin = what.find(std::string(mark));
    error_ = begin == std::string::npos ? what : what.substr(begin + mark.size());
    return false;
  }

 private:
  struct Level {
    json* value;
    std::string pointer;
    bool has_pointer;
    std::string key;  // of the next member
  };

  // "" if it, or an enclosing one, is too long.
  std::string PointerIn(const Level& level, absl::string_view key) {
    if (!level.has_pointer) return "";
    const size_t bytes = level.pointer.size() + key.size() + 1;
    if (bytes > kShortPointerBytes) {
      if (bytes > long_pointer_bytes_left_) return "";
      long_pointer_bytes_left_ -= bytes;
    }
    WorkCount::Add(bytes);
    return JsonPointerTo(level.pointer, key);
  }

  // Records the line of a key. A long key is repeated in the pointers of all keys below it: without
  // a limit a file of some MiB would take terabytes.
  void Remember(std::string pointer) {
    if (pointer.empty() || pointer.size() > pointer_bytes_left_) return;
    const int line = Line();
    pointer_bytes_left_ -= pointer.size();
    document_->lines.emplace(std::move(pointer), line);
  }

  // Stores a value at the current position.
  json* Place(json value) {
    if (levels_.empty()) {
      document_->value = std::move(value);
      return &document_->value;
    }
    Level& level = levels_.back();
    if (level.value->is_array()) {
      level.value->push_back(std::move(value));
      return &level.value->back();
    }
    return &((*level.value)[level.key] = std::move(value));
  }

  bool skips() const { return skips_next_ || skipped_levels_ > 0; }

  // False if the kept values would exceed the memory limit.
  bool Count(size_t bytes) {
    memory_bytes_ += bytes;
    if (memory_bytes_ <= limits_.max_memory_bytes) return true;
    return Fail(absl::StrCat("its values would take more than ", limits_.max_memory_bytes >> 20,
                             " MiB of memory"));
  }

  template <typename T>
  bool Value(T&& value) {
    if (skipped_levels_ > 0) return true;
    if (stream_ != nullptr) return Told(stream_->Scalar(json(std::forward<T>(value)))) && GoesOn();
    if (!Count(kNodeBytes)) return false;
    if (std::exchange(skips_next_, false)) {
      Place(nullptr);
    } else {
      Place(json(std::forward<T>(value)));
    }
    return GoesOn();
  }

  // False if a signal ends the parse (StopPatience).
  bool GoesOn() {
    if (++values_ % kValuesAtOnce != 0 || !patience_.Ends()) return true;
    given_up_ = true;
    return false;
  }

  // Handles the result of a stream: "" or an error.
  bool Told(std::string wrong) { return wrong.empty() || Fail(std::move(wrong)); }

  bool Open(bool array) {
    if (stream_ != nullptr) {
      ++stream_levels_;
      return Told(stream_->Open(array));
    }
    if (levels_.size() + skipped_levels_ >= static_cast<size_t>(limits_.max_depth)) {
      return Fail(absl::StrCat("nested more than ", limits_.max_depth, " levels deep"));
    }
    if (skips()) {
      Value(nullptr);
      ++skipped_levels_;
      return true;
    }
    if (!Count(kNodeBytes)) return false;
    std::string pointer;
    if (!levels_.empty()) {
      const Level& level = levels_.back();
      pointer = PointerIn(
          level, level.value->is_array() ? std::to_string(level.value->size()) : level.key);
    }
    const bool has_pointer = levels_.empty() || !pointer.empty();
    JsonStream* const stream =
        limits_.elsewhere && has_pointer ? limits_.elsewhere(pointer, array) : nullptr;
    if (stream != nullptr) {
      Place(nullptr);
      stream_ = stream;
      stream_levels_ = 1;
      return Told(stream_->Open(array));
    }
    json* placed = Place(array ? json::array() : json::object());
    levels_.push_back({placed, std::move(pointer), has_pointer, ""});
    return GoesOn();
  }

  bool Close() {
    if (stream_ != nullptr) {
      JsonStream* const stream = stream_;
      if (--stream_levels_ == 0) stream_ = nullptr;
      return Told(stream->Close());
    }
    if (skipped_levels_ > 0) {
      --skipped_levels_;
    } else {
      levels_.pop_back();
    }
    return true;
  }

  bool Fail(std::string why) {
    error_ = std::move(why);
    error_line_ = Line();
    return false;
  }

  // The current line of the parser; each byte is scanned once.
  int Line() {
    line_ += static_cast<int>(std::count(text_.data() + counted_, *reached_, '\n'));
    counted_ = *reached_ - text_.data();
    return line_;
  }

  int LineAt(size_t position) const {
    return limits_.first_line +
           static_cast<int>(std::count(text_.data(), text_.data() + position, '\n'));
  }

  absl::string_view text_;
  const char* const* reached_;
  JsonDocument* document_;
  const JsonLimits& limits_;
  size_t pointer_bytes_left_;
  size_t long_pointer_bytes_left_;
  std::vector<Level> levels_;
  bool skips_next_ = false;       // the next value
  size_t skipped_levels_ = 0;     // depth inside a value that is not kept
  JsonStream* stream_ = nullptr;  // the consumer of the current value
  size_t stream_levels_ = 0;
  size_t memory_bytes_ = 0;
  size_t counted_ = 0;
  int line_;
  std::string error_;
  int error_line_;
  size_t values_ = 0;
  StopPatience patience_;
  bool given_up_ = false;
};

}  // namespace

int JsonDocument::LineOf(absl::string_view pointer) const {
  while (!pointer.empty()) {
    const auto found = lines.find(std::string(pointer));
    if (found != lines.end()) return found->second;
    const size_t slash = pointer.rfind('/');
    pointer = slash == absl::string_view::npos ? "" : pointer.substr(0, slash);
  }
  return 1;
}

std::string JsonDocument::Where(absl::string_view pointer) const {
  return absl::StrCat(file, ":", LineOf(pointer));
}

std::string JsonPointerTo(absl::string_view parent, absl::string_view key) {
  return absl::StrCat(parent, "/", absl::StrReplaceAll(key, {{"~", "~0"}, {"/", "~1"}}));
}

absl::StatusOr<JsonDocument> ParseStrictJson(absl::string_view text, absl::string_view file,
                                             const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": ", text.size(), " bytes of JSON; at most ", limits.max_bytes, " are read"));
  }
  if (limits.relaxed) {
    return ParseStrictJson(StrictJsonFromRelaxed(text), file,
                           {.max_bytes = 2 * text.size() + 2,
                            .max_depth = limits.max_depth,
                            .max_memory_bytes = limits.max_memory_bytes});
  }
  JsonDocument document;
  document.file = std::string(file);
  const char* reached = text.data();
  Builder builder(text, &reached, &document, limits);
  const bool parsed = json::sax_parse(CountingIterator(text.data(), &reached),
                                      CountingIterator(text.data() + text.size(), &reached),
                                      &builder, nlohmann::detail::input_format_t::json,
                                      /*strict=*/true, /*ignore_comments=*/false);
  if (builder.given_up()) return StopSignal::Check();
  if (!parsed) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ":", builder.error_line(), ": ", builder.error()));
  }
  return document;
}

absl::StatusOr<JsonDocument> ReadStrictJson(absl::string_view path, const JsonLimits& limits) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadSmallFile(path, limits.max_bytes, SymbolicLink::kFollow));
  return ParseStrictJson(text, path, limits);
}

}  // namespace spillway
