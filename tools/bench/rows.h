// The benchmarks. Each is a file of its own, and adds one line or several to the report.
//
// An error means that a line could not be measured; what was added before stays. Every benchmark is
// bounded in time and ends what it started.
#pragma once

#include "runtime/base/status.h"
#include "runtime/client/session.h"
#include "tools/bench/report.h"
#include "tools/bench/settings.h"

namespace lockstep::bench {

// How long all workers take to answer.
Status MeasureSync(const Settings& settings, Report& report);
// Its slowest times, those after a pause, and what it takes to connect.
Status MeasureLatency(const Settings& settings, Report& report);
// What it takes to look at a result after each call.
Status MeasureAnswers(const Settings& settings, Report& report);
// How many calls a second go out, and are executed.
Status MeasureCalls(const Settings& settings, Report& report);
// What metrics and progress counters cost.
Status MeasureCounting(const Settings& settings, Report& report);
// What keys cost.
Status MeasureKeys(const Settings& settings, Report& report);
// What it costs the client to encode one call.
Status MeasureEncode(const Settings& settings, Report& report);
// What it costs a worker to execute one.
Status MeasureDispatch(const Settings& settings, Report& report);
// The data plane on one host.
Status MeasureAllReduce(const Settings& settings, Report& report);
// The same, all collectives.
Status MeasureCollectives(const Settings& settings, Report& report);
// The data plane between hosts.
Status MeasureHosts(const Settings& settings, Report& report);
// From the client's memory into worker-0's tensor.
Status MeasureCopy(const Settings& settings, Report& report);
// Of the same row: host tensors, which worker-0 takes over, and which are dealt out.
Status MeasureHostTensors(const Settings& settings, Report& report);
// The same where they share no memory.
Status MeasureBulk(const Settings& settings, Report& report);
// What it takes to find out how tensors come from one layout to another, and to move them.
Status MeasurePlan(const Settings& settings, Report& report);
// Of the same row: exchanges that are done together, and beside calls.
Status MeasureGroupedExchanges(const Settings& settings, Session& session, Report& report);
Status MeasureOverlap(const Settings& settings, Report& report);
// Pieces of programs that workers compile: calls of them, and what is computed.
Status MeasureFragments(const Settings& settings, Report& report);
// Of the same row: iterations beside NumPy and Dask, and what crosses between workers.
Status MeasureFragmentIterations(const Settings& settings, Report& report);
Status MeasureFragmentBytes(const Settings& settings, Report& report);
// What an unused cluster costs, and what it keeps after it was used.
Status MeasureIdle(const Settings& settings, Report& report);
// From nothing to a cluster that takes calls.
Status MeasureStart(const Settings& settings, Report& report);
// What a GPU worker costs.
Status MeasureGpu(const Settings& settings, Report& report);
// What it saves to launch a plan as one graph, on so many GPUs.
Status MeasureGpuPlan(const Settings& settings, int gpus, Report& report);
// How soon a fault is known, and how soon the work goes on.
Status MeasureFaults(const Settings& settings, Report& report);

// What a controller costs, by the number of its workers.
Status MeasureScale(const Settings& settings, Report& report);

}  // namespace lockstep::bench
