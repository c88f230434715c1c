// What the benchmarks found: lines of numbers beside their rivals' numbers, and whether each
// reaches its goal.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::bench {

enum class Better { kLess, kMore };

// One number per round. Rounds of a line and its rivals take turns, so that what disturbs the
// machine disturbs both.
struct Series {
  std::string name;
  std::vector<double> values;
};

struct Goal {
  enum class Kind {
    kNone,          // told for information
    kRatioAtLeast,  // how many times as fast as the best rival
    kValueAtMost,
    kValueAtLeast,
  };
  Kind kind = Kind::kNone;
  double bound = 0;

  static Goal None() { return {}; }
  static Goal RatioAtLeast(double bound) { return {Kind::kRatioAtLeast, bound}; }
  static Goal ValueAtMost(double bound) { return {Kind::kValueAtMost, bound}; }
  static Goal ValueAtLeast(double bound) { return {Kind::kValueAtLeast, bound}; }
};

struct Line {
  std::string row;   // the benchmark it belongs to: "allreduce"
  std::string what;  // what was measured: "4 ranks, 1 MiB"
  std::string unit;  // "us", "GB/s"
  Better better = Better::kLess;
  Goal goal = Goal::None();
  std::vector<double> ours = {};
  std::vector<Series> rivals = {};
  std::string note = {};  // what else a reader should know
  // The most processor time, in cores, that other programs took just before or after.
  double foreign_cores = 0;

  // The rival of this name, made if there is none.
  Series& Rival(const std::string& name);
};

// What follows from a line's numbers. Medians over rounds.
struct Verdict {
  double ours = 0;
  const Series* best_rival = nullptr;  // null: the line has none
  double rival = 0;
  // How many times as fast as the best rival: above 1 we are faster. The median of the rounds'
  // ratios, because two numbers of one round met the same machine.
  double ratio = 0;
  enum class Outcome { kInformation, kPass, kMiss, kNotMeasured } outcome = Outcome::kInformation;
};
Verdict Judge(const Line& line);

// "pass", "MISS", "-", "not measured"
std::string Name(Verdict::Outcome outcome);

class Report {
 public:
  // The reference stays valid.
  Line& Add(Line line) { return lines_.emplace_back(std::move(line)); }
  std::deque<Line>& lines() { return lines_; }
  const std::deque<Line>& lines() const { return lines_; }

 private:
  std::deque<Line> lines_;
};

// The value below which `fraction` (0 to 1) of `values` lie, by the nearest rank. `values` is not
// empty; it is taken by value because it gets sorted.
double Percentile(std::vector<double> values, double fraction);

inline double Median(std::vector<double> values) { return Percentile(std::move(values), 0.5); }

}  // namespace lockstep::bench
