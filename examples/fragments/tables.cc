#include "examples/fragments/tables.h"

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "examples/digits/dataset.h"
#include "examples/support/find_file.h"

namespace lockstep::examples::fragments {
namespace {

constexpr int64_t kMeasurements = 30;
constexpr int64_t kColumns = kMeasurements + 1;

// Each column but the first, less its mean, in standard deviations.
void Standardise(std::vector<double>& table) {
  const auto rows = static_cast<double>(table.size()) / kColumns;
  for (size_t column = 1; column < kColumns; ++column) {
    double mean = 0;
    for (size_t i = column; i < table.size(); i += kColumns) mean += table[i] / rows;
    double variance = 0;
    for (size_t i = column; i < table.size(); i += kColumns) {
      variance += (table[i] - mean) * (table[i] - mean) / rows;
    }
    for (size_t i = column; i < table.size(); i += kColumns) {
      table[i] = (table[i] - mean) / std::sqrt(variance);
    }
  }
}

}  // namespace

StatusOr<Digits> ReadDigits() {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path, FindFile("examples/digits/data/optdigits.csv"));
  LOCKSTEP_ASSIGN_OR_RETURN(digits::Dataset dataset, digits::LoadDataset(path));
  constexpr double kBrightest = 16;
  std::vector<double> pixels;
  pixels.reserve(dataset.images.size());
  for (const uint8_t pixel : dataset.images) pixels.push_back(pixel / kBrightest);
  return Digits{HostTensor::Of<double>({dataset.size(), digits::kPixels}, pixels),
                std::move(dataset.labels)};
}

StatusOr<Tumours> ReadTumours() {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path,
                            FindFile("examples/fragments/data/breast_cancer.csv"));
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // a heading
  std::vector<double> table;
  std::vector<double> is_benign;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    table.push_back(1);
    char comma = 0;
    for (int i = 0; i < kMeasurements; ++i) fields >> table.emplace_back() >> comma;
    fields >> is_benign.emplace_back();
    if (!fields) return InvalidArgument(path, ": expected 30 measurements and a class: ", line);
  }
  if (is_benign.empty()) return InvalidArgument(path, " has no rows");
  Standardise(table);
  return Tumours{HostTensor::Of<double>({static_cast<int64_t>(is_benign.size()), kColumns}, table),
                 std::move(is_benign)};
}

}  // namespace lockstep::examples::fragments
