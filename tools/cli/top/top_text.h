// What `lockstep top` shows: lines that fit a terminal, plain text, or JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/top/cluster_rates.h"
#include "tools/cli/value_text.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {

struct TopView {
  ClusterStatus status;
  ClusterRates rates;
  std::string trouble;  // why there is nothing newer; empty: nothing is wrong
};

// What a terminal shows of it.
struct TopWindow {
  int width = 0;   // columns; 0: as many as it takes
  int height = 0;  // lines; 0: as many as it takes, and no last line about keys
  int first = 0;   // workers, or groups of them, above the first that is shown
  // Every worker has a line; else, where there are many (kMostSingleWorkers), a group of those that
  // do the same.
  bool each = false;
};

// At most `height` lines of at most `width` characters. Columns that do not fit are left out, the
// less important ones first. `first` is put right if it is beyond the end.
std::vector<std::string> RenderTop(const TopView& view, const text::Style& style,
                                   TopWindow& window);

Json TopToJson(const TopView& view);

}  // namespace lockstep::cli
