#include "tools/bench/scale/growth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "tools/bench/scale/growth_plot.h"

namespace lockstep::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::vector<double> kWorkers = {8, 16, 32, 64, 128, 256, 512, 1024};

std::vector<double> Power(double factor, double exponent) {
  std::vector<double> values;
  for (const double workers : kWorkers) values.push_back(factor * std::pow(workers, exponent));
  return values;
}

TEST(GrowthTest, APowerLawIsFoundAgain) {
  for (const double exponent : {0.0, 0.5, 1.0, 2.0}) {
    const PowerLaw law = FitPowerLaw(kWorkers, Power(3, exponent));
    EXPECT_NEAR(law.exponent, exponent, 1e-9);
    EXPECT_NEAR(law.factor, 3, 1e-9);
    EXPECT_NEAR(law.At(16384), 3 * std::pow(16384, exponent), 1e-3);
  }
}

TEST(GrowthTest, WhatIsNotAboveZeroHasNoPower) {
  EXPECT_EQ(FitPowerLaw({8, 16}, {0, 0}).factor, 0);
  EXPECT_EQ(FitPowerLaw({8, 16}, {0, 5}).exponent, 0);
  EXPECT_NEAR(FitPowerLaw({8, 16, 32}, {0, 16, 32}).exponent, 1, 1e-9);
}

// A cost that all sizes share hides what grows, as long as that is small.
TEST(GrowthTest, TheLawOfManyWorkersLooksAtThoseAlone) {
  Growth growth{kWorkers, {{"memory", "MB", {}}}};
  for (const double workers : kWorkers) growth.curves[0].values.push_back(100 + workers);
  EXPECT_GT(growth.Law(growth.curves[0], kManyWorkers).exponent,
            growth.Law(growth.curves[0]).exponent + 0.1);
}

TEST(GrowthTest, TheTableHasTheNumbersAndTheirExponents) {
  std::ostringstream out;
  PrintGrowth(out, {kWorkers, {{"a sync", "us", Power(2, 1)}}});
  EXPECT_THAT(out.str(), HasSubstr("1024"));
  EXPECT_THAT(out.str(), HasSubstr("2,048"));
  EXPECT_THAT(out.str(), HasSubstr("1.00"));
}

TEST(GrowthTest, ThePictureHasAPanelForEachCurveAndAPointForEachNumber) {
  const std::string svg =
      GrowthSvg({kWorkers, {{"a < b", "us", Power(2, 1)}, {"none", "s", Power(0, 1)}}});
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  EXPECT_THAT(svg, HasSubstr("us, exponent 1.00"));
  EXPECT_THAT(svg, HasSubstr("nothing that could be measured"));
  size_t points = 0;
  for (size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1)) {
    ++points;
  }
  EXPECT_EQ(points, kWorkers.size());
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(GrowthTest, NumbersHaveThreeDigitsThatCount) {
  EXPECT_EQ(ShortNumber(0.0524), "0.052");
  EXPECT_EQ(ShortNumber(1.304), "1.30");
  EXPECT_EQ(ShortNumber(17.04), "17.0");
  EXPECT_EQ(ShortNumber(1204.4), "1,204");
}

}  // namespace
}  // namespace lockstep::bench
