#include "services/config/yaml.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep::config {
namespace {

std::vector<Entry> Parse(const std::string& text, Problems& problems) {
  return ParseYaml(text, "x.yaml", "/etc", problems);
}

std::string YamlProblems(const std::string& text) {
  Problems problems;
  Parse(text, problems);
  return Message(problems.ToStatus());
}

TEST(YamlTest, SectionsBecomeDottedKeysWithLines) {
  Problems problems;
  const std::vector<Entry> entries =
      Parse("# a comment\nworkers: 4\ncontroller:\n  deep:\n    key: \"v\"\n", problems);
  EXPECT_TRUE(problems.empty());
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].key, "workers");
  EXPECT_EQ(entries[0].where, "x.yaml:2");
  EXPECT_EQ(entries[0].value.items, std::vector<std::string>{"4"});
  EXPECT_EQ(entries[1].key, "controller.deep.key");
  EXPECT_EQ(entries[1].where, "x.yaml:5");
  EXPECT_EQ(entries[1].value.directory, "/etc");
}

TEST(YamlTest, FormsOfValues) {
  Problems problems;
  const std::vector<Entry> entries =
      Parse("a: [x, y]\nb:\nc: {}\nd: []\ne: ''\nf:\n- z\n", problems);
  EXPECT_TRUE(problems.empty());
  ASSERT_EQ(entries.size(), 6u);
  EXPECT_EQ(entries[0].value.form, RawValue::Form::kList);
  EXPECT_EQ(entries[0].value.Text(), "[x, y]");
  EXPECT_EQ(entries[1].value.form, RawValue::Form::kNothing);
  EXPECT_EQ(entries[2].value.form, RawValue::Form::kNothing);
  EXPECT_EQ(entries[3].value.form, RawValue::Form::kList);
  EXPECT_EQ(entries[4].value.form, RawValue::Form::kScalar);
  EXPECT_EQ(entries[4].value.Text(), "");
  EXPECT_EQ(entries[5].value.Text(), "[z]");
}

TEST(YamlTest, AListWithSectionsIsEntriesOfItsItemsWithTheirLines) {
  Problems problems;
  const std::vector<Entry> entries =
      Parse("hosts:\n  - a\n  - {host: b, workers: 2}\n  - host: c\n    path: [x, y]\n", problems);
  EXPECT_TRUE(problems.empty()) << problems.ToStatus();
  std::string text;
  for (const Entry& entry : entries) {
    text += entry.where + " " + entry.key + " " + entry.value.Text() + "\n";
  }
  EXPECT_EQ(text,
            "x.yaml:1 hosts []\n"
            "x.yaml:2 hosts[0] a\n"
            "x.yaml:3 hosts[1].host b\n"
            "x.yaml:3 hosts[1].workers 2\n"
            "x.yaml:4 hosts[2].host c\n"
            "x.yaml:5 hosts[2].path [x, y]\n");
  EXPECT_EQ(YamlProblems("a: [{b: [[1]]}]\n"),
            "x.yaml:1: a[0].b: the items of a list must be plain values");
}

TEST(YamlTest, AnEmptyFileHasNoEntries) {
  EXPECT_EQ(YamlProblems(""), "");
  EXPECT_EQ(YamlProblems("# nothing but a comment\n"), "");
}

TEST(YamlTest, SyntaxErrorsNameTheLine) {
  const std::string problems = YamlProblems("a: 1\nb: [1, 2\n");
  EXPECT_NE(problems.find("x.yaml:"), std::string::npos) << problems;
  EXPECT_NE(problems.find("not valid YAML"), std::string::npos) << problems;
}

TEST(YamlTest, KeysGivenTwiceNameBothLines) {
  EXPECT_EQ(YamlProblems("a: 1\nb: 2\na: 3\n"), "x.yaml:3: a: given twice, first at x.yaml:1");
  EXPECT_EQ(YamlProblems("s:\n  a: 1\ns.a: 2\n"), "x.yaml:3: s.a: given twice, first at x.yaml:2");
}

TEST(YamlTest, WhatIsNoMapOfPlainValuesIsRefused) {
  EXPECT_EQ(YamlProblems("- a\n- b\n"),
            "x.yaml:1: expected \"key: value\" lines at the top of the file");
  EXPECT_EQ(YamlProblems("just words\n"),
            "x.yaml:1: expected \"key: value\" lines at the top of the file");
  EXPECT_EQ(YamlProblems("a: [[1], 2]\n"), "x.yaml:1: a: the items of a list must be plain values");
  EXPECT_EQ(YamlProblems("[1, 2]: x\n"), "x.yaml:1: a key must be a plain word");
  EXPECT_NE(YamlProblems("a: 1\n---\nb: 2\n").find("a second document"), std::string::npos);
}

TEST(YamlTest, AliasesThatExpandWithoutEndAreRefused) {
  EXPECT_NE(YamlProblems("a: &x\n  b: *x\n"), "");
  std::string bomb = "a0: &a0 {k: v}\n";
  for (int i = 1; i < 30; ++i) {
    const std::string last = std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " {";
    for (char key = 'a'; key < 'k'; ++key) bomb += std::string(1, key) + ": *a" + last + ", ";
    bomb += "}\n";
  }
  EXPECT_NE(YamlProblems(bomb).find("nested too deeply, or too many values"), std::string::npos);
}

TEST(YamlTest, DeepNestingIsRefused) {
  EXPECT_NE(YamlProblems(std::string(10'000, '{')), "");
  EXPECT_NE(YamlProblems(std::string(10'000, '[')), "");
}

TEST(YamlTest, FilesThatCannotBeReadAreAProblem) {
  Problems problems;
  ReadYamlFile("/nonexistent/x.yaml", problems);
  ReadYamlFile("/", problems);
  EXPECT_EQ(Message(problems.ToStatus()),
            "/nonexistent/x.yaml: cannot be read: No such file or directory\n"
            "/: is a directory, expected a YAML file");
}

TEST(YamlTest, AssignmentsAreWrittenAsInAFile) {
  Problems problems;
  std::vector<Entry> entries = ParseAssignment("worker.module_path=[/a, /b c]", problems);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].key, "worker.module_path");
  EXPECT_EQ(entries[0].value.items, (std::vector<std::string>{"/a", "/b c"}));
  EXPECT_EQ(entries[0].where, "--set worker.module_path=[/a, /b c]");
  entries = ParseAssignment("client_endpoint=tcp://127.0.0.1:*", problems);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].value.Text(), "tcp://127.0.0.1:*");
  EXPECT_TRUE(problems.empty()) << problems.ToStatus();
}

TEST(YamlTest, AnAssignmentMayBeAListOfSections) {
  Problems problems;
  const std::vector<Entry> entries = ParseAssignment("hosts=[a, {host: b}]", problems);
  EXPECT_TRUE(problems.empty()) << problems.ToStatus();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[2].key, "hosts[1].host");
  EXPECT_EQ(entries[2].where, "--set hosts=[a, {host: b}]");
  EXPECT_EQ(ParseAssignment("hosts[1].workers=2", problems)[0].key, "hosts[1].workers");
  EXPECT_TRUE(problems.empty()) << problems.ToStatus();
}

TEST(YamlTest, MalformedAssignmentsAreAProblem) {
  for (const char* text : {"", "workers", "=4", "a=[1", "a={b: 1}", "a: 1\nb=2", "a=1\nb: 2"}) {
    Problems problems;
    EXPECT_TRUE(ParseAssignment(text, problems).empty()) << text;
    EXPECT_FALSE(problems.empty()) << text;
  }
}

TEST(YamlTest, ScalarsReadBack) {
  for (const std::string& text :
       {std::string("plain"), std::string(""), std::string("null"), std::string("~"),
        std::string("a: b"), std::string("a #b"), std::string("- x"), std::string("---"),
        std::string("*star"), std::string("tcp://127.0.0.1:*"), std::string("/path/with space"),
        std::string("\"quoted\"\n\ttab"), std::string("[1]"), std::string("-1"), std::string("a:"),
        std::string("gr\xc3\xbc\xc3\x9f"
                    "e")}) {
    Problems problems;
    const std::vector<Entry> entries = Parse("k: " + YamlScalar(text) + "\n", problems);
    ASSERT_EQ(entries.size(), 1u) << text << " " << problems.ToStatus();
    EXPECT_EQ(entries[0].value.form, RawValue::Form::kScalar);
    EXPECT_EQ(entries[0].value.items[0], text);
  }
}

// What was read of such a path was written for a child as a longer one.
TEST(YamlTest, TextThatIsNoUtf8IsRefused) {
  for (const char* text :
       {"a: \xff", "a: \xc3", "a: \xc0\x80", "a: \xed\xa0\x80", "a: \xf5\x80\x80\x80"}) {
    EXPECT_NE(YamlProblems(text).find("no UTF-8"), std::string::npos) << text;
  }
  EXPECT_EQ(YamlProblems("a: \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "");
}

// yaml-cpp takes these three bytes for documents without end, and needs memory for each.
TEST(YamlTest, TextOfEndlessDocumentsIsRefused) { EXPECT_NE(YamlProblems(",[!"), ""); }

TEST(YamlTest, AliasInsideItsAnchorIsRefused) {
  EXPECT_NE(YamlProblems("a: &a [*a]\n").find("inside its own anchor"), std::string::npos);
}

// Every value's key has those of its sections in front.
TEST(YamlTest, LongKeysAreRefused) {
  const std::string problems = YamlProblems("? " + std::string(1000, 'k') + "\n: {a: 1, b: 2}\n");
  EXPECT_NE(problems.find("a key of more than 256 letters"), std::string::npos);
  EXPECT_LT(problems.size(), 200u);
}

TEST(ProblemsTest, WhatIsToldIsBounded) {
  Problems problems;
  for (int i = 0; i < 10'000; ++i)
    problems.Add(std::string(100'000, 'w'), std::string(100'000, 'x'));
  EXPECT_EQ(problems.size(), 10'000u);
  EXPECT_LT(Message(problems.ToStatus()).size(), size_t{1} << 20);
}

// What ReadDocument() makes of `text`; the input ends after it, or stays open.
StatusOr<std::string> Read(const std::string& text, bool ends = true, size_t max_bytes = 1000) {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  EXPECT_EQ(write(pipe_ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  if (ends) close(pipe_ends[1]);
  StatusOr<std::string> document = ReadDocument(pipe_ends[0], max_bytes);
  if (!ends) close(pipe_ends[1]);
  close(pipe_ends[0]);
  return document;
}

TEST(StandardInputTest, ADocumentEndsWithTheInput) {
  EXPECT_EQ(*Read("a: 1\nb: 2"), "a: 1\nb: 2");
  EXPECT_EQ(*Read(""), "");
}

TEST(StandardInputTest, ADocumentEndsWithALineOfDots) {
  EXPECT_EQ(*Read("a: 1\n...\n", /*ends=*/false), "a: 1\n");
  EXPECT_EQ(*Read("...\nmore", /*ends=*/false), "");
  EXPECT_EQ(*Read("a: ...\n... b\n...\n", /*ends=*/false), "a: ...\n... b\n");
}

TEST(StandardInputTest, TooMuchIsRefused) {
  const Status status = Read(std::string(20, 'x'), /*ends=*/false, /*max_bytes=*/10).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
}

TEST(StandardInputTest, WhatCannotBeReadIsSaid) {
  EXPECT_EQ(ReadDocument(-1, 10).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::config
