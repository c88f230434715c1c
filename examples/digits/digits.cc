// Trains a small neural network on images of handwritten digits, data-parallel on all workers.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include "examples/digits/dataset.h"
#include "examples/digits/loss_chart.h"
#include "examples/digits/train.h"
#include "examples/support/cluster.h"
#include "examples/support/find_file.h"
#include "examples/support/flags.h"

namespace lockstep::examples::digits {
namespace {

struct Flags {
  ClusterFlags cluster;
  TrainOptions train;
  std::string data;
  std::string losses;
  bool plan = false;
  bool quiet = false;
};

// Losses with all their digits, for comparing runs.
Status WriteLosses(const std::string& path, const std::vector<double>& losses) {
  std::ofstream file(path);
  file.precision(17);
  file << "epoch,loss\n";
  for (size_t i = 0; i < losses.size(); ++i) file << i + 1 << "," << losses[i] << "\n";
  file.close();
  if (!file) return Unavailable("cannot write the losses to ", path);
  return OkStatus();
}

// Trains once more, each epoch as a plan, beside the same call by call: the same in every bit.
Status ComparePlan(Cluster& cluster, const Split& data, TrainOptions options,
                   const TrainResult& by_calls, double call_seconds) {
  options.as_plan = true;
  const auto start = std::chrono::steady_clock::now();
  LOCKSTEP_ASSIGN_OR_RETURN(
      const TrainResult planned,
      Train(cluster.session(), cluster.module_path(), data, options, [](int, double) {}));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!(planned == by_calls)) return Internal("the plan's result differs from that of its calls");
  std::printf("as a plan: the same in every bit, %.2f s (%.2fx)\n", seconds.count(),
              call_seconds / seconds.count());
  return OkStatus();
}

Status Run(const Flags& flags) {
  std::string data_path = flags.data;
  if (data_path.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(data_path, FindFile("examples/digits/data/optdigits.csv"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Dataset dataset, LoadDataset(data_path));
  const Split data = HoldOutEveryFifth(dataset);
  LOCKSTEP_ASSIGN_OR_RETURN(Cluster cluster,
                            Cluster::Open(flags.cluster, "examples/digits/digits_module.so"));
  const int workers = cluster.session().num_workers();
  if (!flags.quiet) {
    std::printf("Training on %lld images with %d %s; %lld images are held out.\n",
                static_cast<long long>(data.training.size()), workers,
                workers == 1 ? "worker" : "workers", static_cast<long long>(data.held_out.size()));
  }

  LossDisplay display(stdout, flags.train.epochs, LossDisplay::FitsTerminal(STDOUT_FILENO));
  const auto start = std::chrono::steady_clock::now();
  LOCKSTEP_ASSIGN_OR_RETURN(
      const TrainResult result,
      Train(cluster.session(), cluster.module_path(), data, flags.train, [&](int, double loss) {
        if (!flags.quiet) display.Add(loss);
      }));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;

  if (!flags.losses.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(WriteLosses(flags.losses, result.losses));
  }
  std::printf("%d epochs on %d %s in %.2f s: loss %.4f, held-out accuracy %.4f (%lld of %lld)\n",
              flags.train.epochs, workers, workers == 1 ? "worker" : "workers", seconds.count(),
              result.losses.back(),
              static_cast<double>(result.correct) / static_cast<double>(result.held_out),
              static_cast<long long>(result.correct), static_cast<long long>(result.held_out));
  if (flags.plan) {
    LOCKSTEP_RETURN_IF_ERROR(ComparePlan(cluster, data, flags.train, result, seconds.count()));
  }
  return cluster.Close();
}

}  // namespace
}  // namespace lockstep::examples::digits

int main(int argc, char** argv) {
  lockstep::examples::digits::Flags flags;
  const int exit_code = lockstep::examples::ParseFlags(
      "Trains a neural network on images of handwritten digits, on all workers at once.",
      lockstep::examples::WithClusterFlags(
          flags.cluster,
          {
              {"--epochs", &flags.train.epochs, "Passes through the training images", 100'000},
              {"--batch", &flags.train.batch_size, "Images of a mini-batch, over all workers",
               1'000'000},
              {"--seed", &flags.train.seed, "Of the initial parameters and the shuffling"},
              {"--data", &flags.data, "The data set (default: the one that comes along)"},
              {"--losses", &flags.losses, "Write the loss of every epoch here, as CSV"},
              {"--plan", &flags.plan, "Train once more with each epoch as a plan, and compare"},
              {"--quiet", &flags.quiet, "Print the summary only"},
          }),
      argc, argv);
  if (exit_code >= 0) return exit_code;

  const lockstep::Status status = lockstep::examples::digits::Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "digits: %s\n", lockstep::Message(status).c_str());
  return 1;
}
