#include "services/controller/sessions/output_window.h"

#include <gtest/gtest.h>

namespace lockstep::controller {
namespace {

constexpr size_t kHalf = OutputWindow::kBytes / 2 - OutputWindow::kBytesPerMessage;

TEST(OutputWindowTest, AdmitsNoMoreThanTheClientKeepsUpWith) {
  OutputWindow window;
  EXPECT_TRUE(window.Admit(kHalf));
  const uint64_t first = window.position();
  EXPECT_TRUE(window.Admit(kHalf));
  EXPECT_FALSE(window.Admit(0));
  window.Take(first);
  EXPECT_TRUE(window.Admit(kHalf));
  EXPECT_FALSE(window.Admit(0));
}

TEST(OutputWindowTest, ClientCannotTakeWhatItWasNotTold) {
  OutputWindow window;
  window.Take(OutputWindow::kBytes * 10);
  EXPECT_TRUE(window.Admit(kHalf));
  EXPECT_TRUE(window.Admit(kHalf));
  EXPECT_FALSE(window.Admit(0));
}

TEST(OutputWindowTest, AnOldWordTakesNothingBack) {
  OutputWindow window;
  EXPECT_TRUE(window.Admit(kHalf));
  const uint64_t first = window.position();
  EXPECT_TRUE(window.Admit(kHalf));
  window.Take(window.position());
  window.Take(first);
  EXPECT_TRUE(window.Admit(kHalf));
  EXPECT_TRUE(window.Admit(kHalf));
}

TEST(OutputWindowTest, WhatWasLostOnItsWayTakesNoRoom) {
  OutputWindow window;
  EXPECT_TRUE(window.Admit(OutputWindow::kBytes - OutputWindow::kBytesPerMessage));
  EXPECT_FALSE(window.Admit(0));
  window.Forget();
  EXPECT_TRUE(window.Admit(kHalf));
}

TEST(OutputWindowTest, DroppedLinesAreToldOnceAndByRank) {
  OutputWindow window;
  window.Drop(1, 5);
  window.Drop(1, 2);
  window.Drop(3, 1);
  EXPECT_EQ(window.TakeDropped(0), 0u);
  EXPECT_EQ(window.TakeDropped(1), 7u);
  EXPECT_EQ(window.TakeDropped(1), 0u);
  EXPECT_EQ(window.dropped().size(), 1u);
}

}  // namespace
}  // namespace lockstep::controller
