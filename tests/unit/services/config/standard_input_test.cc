#include "services/config/standard_input.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep::config {
namespace {

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
