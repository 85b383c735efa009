#include "engine/tokenizers/turn_end.h"

#include "tests/engine/data/tokenizer_testing.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

std::optional<uint32_t> EndOfTurnBy(const std::string& chat_template, bool special = true) {
  nlohmann::json json = SmallTokenizerJson();
  json["added_tokens"] =
      nlohmann::json::array({AddedTokenJson(256, "<|im_end|>", {{"special", special}}),
                             AddedTokenJson(257, "</s>", {{"special", special}}),
                             AddedTokenJson(258, "\n", {{"special", false}})});
  auto parts = ParseTokenizerJson(json.dump(), "tokenizer.json");
  EXPECT_TRUE(parts.ok()) << parts.status();
  auto chat = chat_template.empty()
                  ? absl::StatusOr<ChatFormat>(absl::NotFoundError("none"))
                  : ChatFormat::Parse(chat_template, "t", {{"eos_token", "</s>"}});
  return EndOfTurn(*NewPipelineTokenizer(*std::move(parts), std::nullopt, {}, std::move(chat)));
}

std::string EachMessage(const std::string& before, const std::string& after) {
  return "{% for m in messages %}" + before + "{{ m.content }}" + after + "{% endfor %}";
}

TEST(EndOfTurn, IsTheAddedTokenBehindAnAnswer) {
  EXPECT_EQ(EndOfTurnBy(EachMessage("<|im_start|>", "<|im_end|>\n")), 256u);
  EXPECT_EQ(EndOfTurnBy(EachMessage("", " {{ eos_token }}")), 257u);
  EXPECT_EQ(EndOfTurnBy(EachMessage("", "\n<|im_end|></s>")), 256u) << "the first of two";
  EXPECT_EQ(EndOfTurnBy(EachMessage("", "<|im_end|>"), /*special=*/false), 256u);
}

TEST(EndOfTurn, IsNoneWhereTurnsEndOtherwise) {
  EXPECT_EQ(EndOfTurnBy(""), std::nullopt);
  EXPECT_EQ(EndOfTurnBy(EachMessage("User: ", "\n")), std::nullopt) << "by a line's end";
  EXPECT_EQ(EndOfTurnBy(EachMessage("", " END</s>")), std::nullopt) << "by text";
  EXPECT_EQ(EndOfTurnBy("{{ raise_exception('no') }}"), std::nullopt);
  EXPECT_EQ(EndOfTurnBy("{{ messages[0].content }}</s>"), std::nullopt) << "no answer is written";
}

}  // namespace
}  // namespace spillway
