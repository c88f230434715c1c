// A loss curve in the terminal, drawn while it falls.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace lockstep::examples::digits {

struct ChartLine {
  std::string axis;   // a label and a piece of the vertical axis
  std::string curve;  // at most `width` characters
};

// The curve as `height` lines from top to bottom, drawn with Braille dots (2x4 a character), on a
// logarithmic axis. There is room for `epochs` losses from left to right; fewer may be there yet.
// Losses are positive.
std::vector<ChartLine> DrawChart(const std::vector<double>& losses, int epochs, int width,
                                 int height);

// Shows losses as they come: on a terminal a chart that is redrawn in place, else a line for about
// every tenth of the epochs.
//
// Threads: one. Ownership: `out` is borrowed.
class LossDisplay {
 public:
  // True if `fd` is a terminal that is large enough to redraw the chart in place.
  static bool FitsTerminal(int fd);

  // `on_terminal`: draw the chart.
  LossDisplay(std::FILE* out, int epochs, bool on_terminal);

  void Add(double loss);

 private:
  void Redraw();
  void PrintLine();

  std::FILE* const out_;
  const int epochs_;
  const bool on_terminal_;
  const bool colour_;
  std::vector<double> losses_;
};

}  // namespace lockstep::examples::digits
