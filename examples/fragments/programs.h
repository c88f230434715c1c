// The programs of this folder: each has a file of its own, with what it computes on the workers,
// for any data, and what it shows of real data.
#pragma once

#include <cstdint>
#include <vector>

#include "examples/fragments/graph.h"
#include "runtime/base/status.h"
#include "runtime/client/session.h"

namespace lockstep::examples::fragments {

// Tables are float64 [rows, columns], of which each worker gets some rows.

// What each row adds up to.
StatusOr<std::vector<double>> RowSums(Session& session, const HostTensor& x);
Status ShowRowSums(Session& session);

// X w
StatusOr<std::vector<double>> Product(Session& session, const HostTensor& x,
                                      const std::vector<double>& w);
Status ShowProduct(Session& session);

// The w of least |Xw - Y|^2 + |w|^2, [columns of x, columns of y], by the normal equations.
StatusOr<HostTensor> LeastSquares(Session& session, const HostTensor& x, const HostTensor& y);
Status ShowLeastSquares(Session& session);

struct LogisticFit {
  std::vector<double> w;
  double loss = 0;  // before the last step, mean of all rows
};
// Gradient descent from w = 0. y: 0 or 1 for each row.
StatusOr<LogisticFit> LogisticRegression(Session& session, const HostTensor& x,
                                         const std::vector<double>& y, int steps, double rate);
Status ShowLogisticRegression(Session& session);

struct Clusters {
  HostTensor centres;           // float64 [clusters, columns]
  std::vector<int64_t> labels;  // the nearest centre of each row
  int steps = 0;                // until no row changed its centre
};
// Begins with these centres.
StatusOr<Clusters> KMeans(Session& session, const HostTensor& x, const HostTensor& centres);
Status ShowKMeans(Session& session);

struct Ranking {
  std::vector<double> ranks;  // of all nodes; adds up to 1
  int steps = 0;
};
// PageRank, until a step changes all ranks together by at most `tolerance`.
StatusOr<Ranking> PageRank(Session& session, const Graph& graph, double damping, double tolerance);
Status ShowPageRank(Session& session);

struct Components {
  std::vector<int64_t> labels;  // the least number of a node that each is connected with
  int steps = 0;                // until no label changed
};
StatusOr<Components> ConnectedComponents(Session& session, const Graph& graph);
Status ShowComponents(Session& session);

}  // namespace lockstep::examples::fragments
