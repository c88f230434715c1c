// Handwritten digits by least squares: each worker compiles two fragments for its processor, and
// runs them on its images. What they contribute to the normal equations is added up where it lies.
//
//     least_squares [--workers 4] [--processes] [--connect ENDPOINT]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "examples/digits/dataset.h"
#include "examples/support/cluster.h"
#include "examples/support/find_file.h"
#include "examples/support/flags.h"
#include "runtime/client/session.h"

namespace lockstep::examples {
namespace {

using fragment::Combine;
using fragment::Fragment;
using fragment::Split;

constexpr int kPixels = 64;
constexpr int kClasses = 10;

StatusOr<Fragment> ReadFragment(const std::string& name) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path, FindFile("examples/fragments/" + name));
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return Fragment::Mlir(text.str(), name);
}

HostTensor Images(const digits::Dataset& dataset) {
  std::vector<double> pixels;
  constexpr double kBrightest = 16;
  for (const uint8_t pixel : dataset.images) pixels.push_back(pixel / kBrightest);
  return HostTensor::Of<double>({dataset.size(), kPixels}, pixels);
}

// 1 in the column of each image's digit.
HostTensor Truth(const digits::Dataset& dataset) {
  std::vector<double> truth(dataset.labels.size() * kClasses, 0);
  for (size_t i = 0; i < dataset.labels.size(); ++i) truth[i * kClasses + dataset.labels[i]] = 1;
  return HostTensor::Of<double>({dataset.size(), kClasses}, truth);
}

// Solves gram * w = moments, by Cholesky's decomposition; a little is added to the diagonal,
// because some pixels are dark in all images.
std::vector<double> Solve(std::vector<double> gram, std::vector<double> w) {
  const auto at = [&](int i, int j) -> double& { return gram[i * kPixels + j]; };
  for (int i = 0; i < kPixels; ++i) {
    at(i, i) += 1;
    for (int j = 0; j <= i; ++j) {
      for (int k = 0; k < j; ++k) at(i, j) -= at(i, k) * at(j, k);
      at(i, j) = i == j ? std::sqrt(at(i, i)) : at(i, j) / at(j, j);
    }
  }
  for (int c = 0; c < kClasses; ++c) {
    for (int i = 0; i < kPixels; ++i) {
      for (int k = 0; k < i; ++k) w[i * kClasses + c] -= at(i, k) * w[k * kClasses + c];
      w[i * kClasses + c] /= at(i, i);
    }
    for (int i = kPixels - 1; i >= 0; --i) {
      for (int k = i + 1; k < kPixels; ++k) w[i * kClasses + c] -= at(k, i) * w[k * kClasses + c];
      w[i * kClasses + c] /= at(i, i);
    }
  }
  return w;
}

StatusOr<std::vector<double>> Collect(Session& session, const DRef& ref) {
  LOCKSTEP_ASSIGN_OR_RETURN(const HostTensor tensor, session.Collect(ref));
  return tensor.Elements<double>();
}

Status Run(const ClusterFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path, FindFile("examples/digits/data/optdigits.csv"));
  LOCKSTEP_ASSIGN_OR_RETURN(const digits::Dataset dataset, digits::LoadDataset(path));
  const digits::Split split = digits::HoldOutEveryFifth(dataset);
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment normal_equations, ReadFragment("normal_equations.mlir"));
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment scores, ReadFragment("scores.mlir"));
  LOCKSTEP_ASSIGN_OR_RETURN(Cluster cluster, Cluster::Open(flags, ""));
  Session& session = cluster.session();

  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<DRef> sums,
                            session.Execute(normal_equations,
                                            {{Images(split.training), Split::kRows},
                                             {Truth(split.training), Split::kRows}},
                                            {{Combine::kAdd}, {Combine::kAdd}}));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<double> gram, Collect(session, sums[0]));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<double> moments, Collect(session, sums[1]));
  const std::vector<double> w = Solve(std::move(gram), std::move(moments));

  const int64_t images = split.held_out.size();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<DRef> fits,
                            session.Execute(scores,
                                            {{Images(split.held_out), Split::kRows},
                                             HostTensor::Of<double>({kPixels, kClasses}, w)},
                                            {{Combine::kRows, Shape{images, kClasses}}}));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> fit, Collect(session, fits[0]));
  int64_t right = 0;
  for (int64_t i = 0; i < images; ++i) {
    const auto begin = fit.begin() + i * kClasses;
    const auto best = std::max_element(begin, begin + kClasses) - begin;
    right += best == split.held_out.labels[static_cast<size_t>(i)] ? 1 : 0;
  }
  std::printf("%lld of %lld held-out images recognized by %d workers\n",
              static_cast<long long>(right), static_cast<long long>(images), session.num_workers());
  return cluster.Close();
}

}  // namespace
}  // namespace lockstep::examples

int main(int argc, char** argv) {
  lockstep::examples::ClusterFlags flags;
  const int exit_code = lockstep::examples::ParseFlags(
      "Recognizes handwritten digits by least squares, with fragments that workers compile.",
      lockstep::examples::WithClusterFlags(flags, {}), argc, argv);
  if (exit_code >= 0) return exit_code;
  const lockstep::Status status = lockstep::examples::Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "least_squares: %s\n", lockstep::Message(status).c_str());
  return 1;
}
