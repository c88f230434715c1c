// k-means: images of digits find together without being told what they show. Images and their
// labels stay on the workers; the client learns how many images have changed their centre.
#include <algorithm>
#include <array>
#include <cstdio>

#include "examples/fragments/calls.h"
#include "examples/fragments/programs.h"
#include "examples/fragments/tables.h"

namespace lockstep::examples::fragments {

StatusOr<Clusters> KMeans(Session& session, const HostTensor& x, const HostTensor& centres) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment k_means, ReadFragment("k_means.mlir"));
  const int64_t rows = x.shape[0];
  const int64_t k = centres.shape[0];
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef placed, session.Place(x, Split::kRows));
  // No centre is -1.
  LOCKSTEP_ASSIGN_OR_RETURN(DRef labels,
                            session.Place(Vector(std::vector<int64_t>(rows, -1)), Split::kRows));
  FragmentInput sums(centres);
  FragmentInput counts(Vector(std::vector<double>(k, 1)));

  Clusters clusters;
  for (int64_t moved = rows; moved > 0; ++clusters.steps) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        const std::vector<DRef> next,
        session.Execute(k_means, {{placed, Split::kRows}, {labels, Split::kRows}, sums, counts},
                        {{Combine::kAdd, centres.shape},
                         {Combine::kAdd, Shape{k}},
                         {Combine::kRows, Shape{rows}},
                         {Combine::kAdd}}));
    sums = next[0];
    counts = next[1];
    labels = next[2];
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int64_t> all, Collect<int64_t>(session, next[3]));
    moved = all[0];
  }
  LOCKSTEP_ASSIGN_OR_RETURN(clusters.labels, Collect<int64_t>(session, labels));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<double> means, Collect(session, *sums.ref()));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> sizes, Collect(session, *counts.ref()));
  const size_t columns = means.size() / sizes.size();
  for (size_t i = 0; i < means.size(); ++i) means[i] /= std::max(1.0, sizes[i / columns]);
  clusters.centres = HostTensor::Of<double>(centres.shape, means);
  return clusters;
}

Status ShowKMeans(Session& session) {
  constexpr int64_t kClusters = 10;
  LOCKSTEP_ASSIGN_OR_RETURN(const Digits digits, ReadDigits());
  const HostTensor& x = digits.pixels;
  // The first images.
  HostTensor centres{x.dtype, {kClusters, x.shape[1]}, ""};
  centres.data = x.data.substr(0, x.data.size() * kClusters / static_cast<size_t>(x.shape[0]));
  LOCKSTEP_ASSIGN_OR_RETURN(const Clusters clusters, KMeans(session, x, centres));

  std::array<std::array<int, 10>, kClusters> shown{};  // [cluster][digit]
  for (size_t i = 0; i < digits.labels.size(); ++i) {
    ++shown[static_cast<size_t>(clusters.labels[i])][digits.labels[i]];
  }
  std::printf("%lld clusters after %d steps; how many images in each show 0, 1, ... 9:\n",
              static_cast<long long>(kClusters), clusters.steps);
  for (const auto& images : shown) {
    for (const int count : images) std::printf(" %4d", count);
    std::printf("\n");
  }
  return OkStatus();
}

}  // namespace lockstep::examples::fragments
