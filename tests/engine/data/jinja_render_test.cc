#include "engine/data/jinja_render.h"

#include "engine/data/jinja_syntax.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;

const JinjaValue kWithMessages = {{"messages",
                                   {{{"role", "user"}, {"content", "Hi\u00a0you\u3000 all"}},
                                    {{"role", "assistant"}, {"content", "Yes"}}}}};

absl::StatusOr<std::string> Rendered(const std::string& source) {
  const auto nodes = ParseJinja(source, "t");
  if (!nodes.ok()) return nodes.status();
  const auto made = RenderJinja(*nodes, kWithMessages, "t");
  if (!made.ok()) return made.status();
  return made->text;
}

// What transformers 4's Jinja (3.1) writes.
struct Written {
  const char *source, *text;
};
void ExpectWritten(std::initializer_list<Written> cases) {
  for (const auto& [source, text] : cases) {
    const auto made = Rendered(source);
    ASSERT_TRUE(made.ok()) << source << ": " << made.status();
    EXPECT_EQ(*made, text) << source;
  }
}

struct Refused {
  const char* source;
  StatusCode code;
  const char* why;
};
void ExpectRefused(std::initializer_list<Refused> cases) {
  for (const auto& [source, code, why] : cases) {
    SCOPED_TRACE(source);
    ExpectError(Rendered(source).status(), code, {why});
  }
}

TEST(JinjaRender, WordsAndNumbersAreThoseOfPython) {
  ExpectWritten({
      {R"({{ "they're foo_bar 1st x-y (z" | title }})", "They're Foo_bar 1st X-Y (Z"},
      {R"({{ "they're foo_bar 1st x-y (z".title() }})", "They'Re Foo_Bar 1St X-Y (Z"},
      {"{{ '3.7' | int }} {{ '1e2' | int }} {{ true | int }} {{ '1_0' | int }} {{ -3.9 | int }}",
       "3 100 1 10 -3"},
      {"{{ '1__0' | int }} {{ '0x10' | int }} {{ 'inf' | int }} {{ none | int }} {{ [] | int }}",
       "0 0 0 0 0"},
      {"{{ '\\u00a012 ' | int }} {{ true + 1 }} {{ true < 2 }} {{ [4, 5][true] }}", "12 2 True 5"},
      {"{{ messages[0].content.split() | join('|') }}", "Hi|you|all"},
  });
  ExpectRefused({
      {"{{ x | int }}", StatusCode::kInvalidArgument, "t:1: int of what is undefined"},
      {"{{ '1e30' | int }}", StatusCode::kUnimplemented, "no place in 64 bits"},
      {"{{ '\\u0663' | int }}", StatusCode::kUnimplemented, "int of characters beyond ASCII"},
      {"{{ 'ab' * 3 }}", StatusCode::kUnimplemented, "a string * a number"},
      {"{{ '%s' % 1 }}", StatusCode::kUnimplemented, "a string % a number"},
      {"{{ [1] < [2] }}", StatusCode::kUnimplemented, "a list < a list"},
      {"{{ 'a' < 1 }}", StatusCode::kInvalidArgument, "a string < a number"},
  });
}

TEST(JinjaRender, EqualListsAndDictionariesHaveEqualElements) {
  ExpectWritten({
      {"{{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ {'a': 1} == {'a': 1, 'b': 2} }}",
       "True False"},
      {"{{ [true] == [1] }} {{ [1] == [1, 2] }} {{ [{'a': true}] == [{'a': 1}] }}",
       "True False True"},
      {"{{ messages == messages }} {{ {'a': [1]} in [{'a': [true]}] }}", "True True"},
  });
}

TEST(JinjaRender, ALoopsElseRunsWhereNoBodyCameToItsEnd) {
  ExpectWritten({
      {"{% for i in [1] %}{% break %}{% else %}E{% endfor %}", "E"},
      {"{% for i in [1, 2] %}{% continue %}{% else %}E{% endfor %}", "E"},
      {"{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% else %}E{% endfor %}",
       "1"},
      {"{% for i in [7] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}", "10"},
  });
}

TEST(JinjaRender, WhatIsSetWithinStaysWithin) {
  ExpectWritten({
      {"{% for i in [] %}{% else %}{% set q = 1 %}{{ q }}{% endfor %}[{{ q }}]", "1[]"},
      {"{% set q = 1 %}{% generation %}{% set q = 2 %}{{ q }}{% endgeneration %}{{ q }}", "21"},
      {"{% for i in [1] %}{% set x %}a{% break %}{% endset %}{% endfor %}[{{ x }}]", "[]"},
  });
  ExpectRefused({{"{% for i in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
                  StatusCode::kInvalidArgument, "\"break\" outside a loop"}});
}

TEST(JinjaRender, ANamespaceIsOneByEveryName) {
  ExpectWritten({
      {"{% set a = namespace(x=1) %}{% set b = a %}{% set b.x = 2 %}{{ a.x }}{{ a['x'] }}", "22"},
      {"{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}",
       "12False"},
      {"{% set ns = namespace(messages[0]) %}{% set ns.role = 'z' %}{{ messages[0].role }}",
       "user"},
      {"{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.x = 3 %}{{ ns.me.me.x }}", "3"},
      {"{{ namespace() == namespace() }} {{ namespace() is mapping }}", "False False"},
  });
  ExpectRefused({
      {"{% set d = {'x': 1} %}{% set d.x = 2 %}", StatusCode::kInvalidArgument,
       "\"d\" is no namespace"},
      {"{{ namespace([['a', 1]]) }}", StatusCode::kUnimplemented, "namespace() of anything but"},
      {"{{ namespace() }}", StatusCode::kUnimplemented, "writing a namespace"},
      {"{{ namespace() | tojson }}", StatusCode::kInvalidArgument, "a namespace"},
  });
}

TEST(JinjaRender, WhatSelectsAndMapsIsGoneThroughOnce) {
  const std::string set = "{% set g = messages | selectattr('role', 'equalto', 'tool') %}";
  ExpectWritten({
      {(set + "{% if g %}yes{% endif %}{{ g | list | length }}").c_str(), "yes0"},
      {"{% if [] | reverse %}yes{% endif %}{{ [1, 2] | reverse | join }}", "yes21"},
      {"{% set g = messages | map(attribute='role') %}{% for r in g %}{{ r }}{{ loop.last }}{% "
       "endfor %}",
       "userFalseassistantTrue"},
      {"{{ 'user' in messages | map(attribute='role') }}", "True"},
      {"{{ messages | map(attribute='role') | reverse | list | length }}", "2"},
      {"{{ (messages | selectattr('role', 'equalto', 'assistant') | first).content }}", "Yes"},
  });
  ExpectRefused({
      {(set + "{{ g | list | length }}{{ g | list | length }}").c_str(), StatusCode::kUnimplemented,
       "a second time through a generator (|list makes it a list)"},
      {(set + "{{ g[0] }}").c_str(), StatusCode::kUnimplemented, "an element of a generator"},
      {(set + "{{ g | length }}").c_str(), StatusCode::kInvalidArgument, "has no length"},
      {(set + "{{ g | last }}").c_str(), StatusCode::kInvalidArgument, "can't be gone through"},
      {(set + "{{ [g] | tojson }}").c_str(), StatusCode::kInvalidArgument, "a generator"},
  });
}

TEST(JinjaRender, JsonIsIndentedByANumberOrAText) {
  ExpectWritten({
      {"{{ {'a': [1]} | tojson(indent='--') }}", "{\n--\"a\": [\n----1\n--]\n}"},
      {"{{ [1] | tojson(indent=1) }}{{ [1] | tojson(indent=-1) }}{{ [1] | tojson(indent=none) }}",
       "[\n 1\n][\n1\n][1]"},
  });
  ExpectRefused({
      {"{{ [1] | tojson(indent=true) }}", StatusCode::kUnimplemented, "a boolean as indent"},
      {"{{ [1] | tojson(indent=65) }}", StatusCode::kUnimplemented, "an indent beyond 64"},
      {"{{ [{'a': x}] | tojson }}", StatusCode::kInvalidArgument, "undefined"},
  });
}

TEST(JinjaRender, AnAttributesPathLeadsInward) {
  ExpectWritten({
      {"{{ [{'a': [{'b': 5}]}] | map(attribute='a.0.b') | join }}", "5"},
      {"{{ [[1, 2], [3, 4]] | map(attribute='1') | join }}", "24"},
      {"{{ [[1, 2], [3, 4]] | map(attribute=0) | join }}", "13"},
      {"{{ [{'a': {'b': 1}}, {'a': {'b': 0}}] | selectattr('a.b') | list | length }}", "1"},
  });
}

TEST(JinjaRender, StringsHavePythonsEscapes) {
  ExpectWritten({
      {R"({{ "\a\b\f\v\/\101\18\x41\u00e9" }})",
       "\a\b\f\v\\/A\x01"
       "8A\u00e9"},
      {"{{ 'a\\\nb' }}", "ab"},
  });
  EXPECT_EQ(*Rendered(R"({{ "\0" }})"), std::string(1, '\0'));
  ExpectRefused({
      {R"({{ "\N{BULLET}" }})", StatusCode::kUnimplemented, R"(\N in a string)"},
      {R"({{ "\x4" }})", StatusCode::kInvalidArgument, "no character"},
      {R"({{ "\x+1" }})", StatusCode::kInvalidArgument, "no character"},
      {"{{ é }}", StatusCode::kUnimplemented, "t:1: the character é in a tag"},
      {"{{ 1e3 }}", StatusCode::kUnimplemented, "the number 1e..."},
  });
}

TEST(JinjaRender, TagsTrimTheWhiteSpaceOfUnicode) {
  ExpectWritten({
      {"a\u3000{%- if true -%}\u00a0b\u2028{%- endif -%}\x1c"
       "c",
       "abc"},
      {"x\n\u00a0{% if true %}y{% endif %}", "x\ny"},
      {"{{\u00a0 1\u3000}}", "1"},
      {"a {#-#} b", "a b"},
      {"a {#--#} b", "ab"},
      {"a {#+ x +#}\nb", "a \nb"},
  });
}

}  // namespace
}  // namespace spillway
