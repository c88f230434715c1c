#include "examples/digits/dataset.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <fstream>
#include <string_view>
#include <system_error>

namespace lockstep::examples::digits {
namespace {

using Row = std::array<uint8_t, kPixels + 1>;

// Reads one line; the error says what is wrong with it.
StatusOr<Row> ParseLine(std::string_view line) {
  Row row{};
  const char* at = line.data();
  const char* const end = at + line.size();
  for (int field = 0; field <= kPixels; ++field) {
    if (field > 0 && (at == end || *at++ != ',')) {
      return InvalidArgument("expected ", kPixels + 1, " numbers with commas between them, found ",
                             field);
    }
    const int limit = field < kPixels ? kInk : kClasses - 1;
    int value = -1;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0 || value > limit) {
      return InvalidArgument(field < kPixels ? "pixel " : "label ", field,
                             " must be a whole number from 0 to ", limit);
    }
    row[static_cast<size_t>(field)] = static_cast<uint8_t>(value);
    at = rest;
  }
  if (at != end) return InvalidArgument("something follows the label");
  return row;
}

void Append(const uint8_t* image, uint8_t label, Dataset& to) {
  to.images.insert(to.images.end(), image, image + kPixels);
  to.labels.push_back(label);
}

}  // namespace

StatusOr<Dataset> LoadDataset(const std::string& path) {
  std::ifstream file(path);
  if (!file) return NotFound("cannot open the data set ", path);
  Dataset dataset;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const StatusOr<Row> row = ParseLine(line);
    if (!row.ok()) return Annotate(row.status(), path + ":" + std::to_string(number));
    Append(row->data(), row->back(), dataset);
  }
  if (number == 0) return InvalidArgument(path, ": the data set is empty");
  return dataset;
}

Split HoldOutEveryFifth(const Dataset& dataset) {
  Split split;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const auto row = static_cast<size_t>(i);
    Append(&dataset.images[row * kPixels], dataset.labels[row],
           i % 5 == 0 ? split.held_out : split.training);
  }
  return split;
}

}  // namespace lockstep::examples::digits
