#include "examples/digits/loss_chart.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace lockstep::examples::digits {
namespace {

constexpr int kWidth = 60;
constexpr int kHeight = 12;
// Label, blank and axis.
constexpr int kAxisWidth = 9;

// Dots of Braille characters, which Unicode numbers by columns, with the lowest row added later.
class Canvas {
 public:
  Canvas(int width, int height)
      : width_(width), height_(height), cells_(static_cast<size_t>(width * height)) {}

  int columns() const { return width_ * 2; }
  int rows() const { return height_ * 4; }

  void SetDot(int column, int row) {
    static constexpr unsigned char kBit[4][2] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    cells_[static_cast<size_t>(row / 4 * width_ + column / 2)] |= kBit[row % 4][column % 2];
  }

  // One line of characters, in UTF-8. U+2800 plus the bits of the dots; blanks at the end are cut.
  std::string Line(int line) const {
    std::string text;
    size_t end = 0;
    for (int i = 0; i < width_; ++i) {
      const unsigned char dots = cells_[static_cast<size_t>(line * width_ + i)];
      if (dots == 0) {
        text += ' ';
        continue;
      }
      text += '\xe2';
      text += static_cast<char>(0xa0 | (dots >> 6));
      text += static_cast<char>(0x80 | (dots & 0x3f));
      end = text.size();
    }
    text.resize(end);
    return text;
  }

 private:
  const int width_;
  const int height_;
  std::vector<unsigned char> cells_;
};

std::string Label(double loss) {
  char text[16];
  std::snprintf(text, sizeof(text), "%7.*f", loss < 1 ? 3 : 2, loss);
  return text;
}

}  // namespace

std::vector<ChartLine> DrawChart(const std::vector<double>& losses, int epochs, int width,
                                 int height) {
  Canvas canvas(width, height);
  double top = 0;
  double bottom = 0;
  if (!losses.empty()) {
    // A little air, and never an axis of no extent.
    top = std::log(*std::max_element(losses.begin(), losses.end())) + 0.05;
    bottom = std::log(*std::min_element(losses.begin(), losses.end())) - 0.05;
  }
  const auto column_of = [&](size_t epoch) {
    return epochs < 2
               ? 0
               : static_cast<int>(std::lround(epoch * (canvas.columns() - 1.0) / (epochs - 1)));
  };
  const auto row_of = [&](double loss) {
    return static_cast<int>(
        std::lround((top - std::log(loss)) / (top - bottom) * (canvas.rows() - 1)));
  };
  for (size_t i = 0; i < losses.size(); ++i) {
    int row = row_of(losses[i]);
    canvas.SetDot(column_of(i), row);
    if (i == 0) continue;
    // A line from the loss before, as many dots as it is wide or high.
    const int from_column = column_of(i - 1);
    const int from_row = row_of(losses[i - 1]);
    const int dots = std::max(column_of(i) - from_column, std::abs(row - from_row));
    for (int k = 1; k < dots; ++k) {
      canvas.SetDot(from_column + (column_of(i) - from_column) * k / dots,
                    from_row + (row - from_row) * k / dots);
    }
  }

  std::vector<ChartLine> lines;
  for (int line = 0; line < height; ++line) {
    // Labels on every third line, at the height of the line's middle.
    const double loss = std::exp(top - (top - bottom) * (line * 4 + 1.5) / (canvas.rows() - 1));
    const bool labelled = !losses.empty() && line % 3 == 0;
    lines.push_back({labelled ? Label(loss) + " ┤" : std::string(kAxisWidth - 1, ' ') + "│",
                     canvas.Line(line)});
  }
  return lines;
}

bool LossDisplay::FitsTerminal(int fd) {
  winsize size{};
  if (isatty(fd) == 0 || ioctl(fd, TIOCGWINSZ, &size) != 0) return false;
  // Some terminals (serial lines) do not know their size: 0.
  return (size.ws_col == 0 || size.ws_col >= kAxisWidth + kWidth) &&
         (size.ws_row == 0 || size.ws_row > kHeight + 1);
}

LossDisplay::LossDisplay(std::FILE* out, int epochs, bool on_terminal)
    : out_(out),
      epochs_(epochs),
      on_terminal_(on_terminal),
      colour_(on_terminal && std::getenv("NO_COLOR") == nullptr) {}

void LossDisplay::Add(double loss) {
  losses_.push_back(loss);
  on_terminal_ ? Redraw() : PrintLine();
}

void LossDisplay::Redraw() {
  // Back to the chart's first line; what each new line does not cover is erased.
  if (losses_.size() > 1) std::fprintf(out_, "\033[%dA", kHeight + 1);
  for (const ChartLine& line : DrawChart(losses_, epochs_, kWidth, kHeight)) {
    std::fprintf(out_, "%s%s%s%s\033[K\n", line.axis.c_str(), colour_ ? "\033[36m" : "",
                 line.curve.c_str(), colour_ ? "\033[0m" : "");
  }
  std::fprintf(out_, "%*sepoch %zu of %d, loss %.4f\033[K\n", kAxisWidth, "", losses_.size(),
               epochs_, losses_.back());
  std::fflush(out_);
}

void LossDisplay::PrintLine() {
  const int epoch = static_cast<int>(losses_.size());
  const int every = std::max(epochs_ / 10, 1);
  if (epoch != 1 && epoch != epochs_ && epoch % every != 0) return;
  std::fprintf(out_, "epoch %*d of %d   loss %.4f\n", epochs_ < 1000 ? 3 : 6, epoch, epochs_,
               losses_.back());
  std::fflush(out_);
}

}  // namespace lockstep::examples::digits
