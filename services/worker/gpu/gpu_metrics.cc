#include "services/worker/gpu/gpu_metrics.h"

#include <optional>
#include <utility>

namespace lockstep::worker {
namespace {

using metrics::Families;

double Seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

void TellMemory(const collective::DeviceReport& report, size_t capacity_bytes, Families& families) {
  const tensor::AllocatorStats& memory = report.memory;
  families.Gauge("lockstep_gpu_live_bytes", "Bytes of the GPU's memory that tensors have.",
                 static_cast<double>(memory.live_bytes));
  families.Gauge("lockstep_gpu_peak_bytes",
                 "The most bytes of the GPU's memory that tensors ever had.",
                 static_cast<double>(memory.peak_bytes));
  families.Gauge("lockstep_gpu_reserved_bytes",
                 "Memory that the worker has taken of the GPU for tensors, used or not.",
                 static_cast<double>(memory.reserved_bytes));
  families.Gauge("lockstep_gpu_capacity_bytes",
                 "Most memory that tensors may have (device_memory_bytes, or all of the GPU's).",
                 static_cast<double>(capacity_bytes));
  families.Gauge("lockstep_gpu_registered_bytes",
                 "Memory of the GPU that is registered with NCCL (registered_memory_bytes).",
                 static_cast<double>(report.registered_bytes));
  families.Gauge("lockstep_gpu_registered_live_bytes", "Bytes of it that tensors have.",
                 static_cast<double>(report.registered_live_bytes));
  families.Gauge("lockstep_gpu_communicators",
                 "Communicators of NCCL's that the worker has: the world's, and those of sessions.",
                 report.communicators);
  families.Gauge("lockstep_gpu_blocks", "Pieces of the GPU's memory that are in use.",
                 static_cast<double>(memory.live_blocks));
  families.Counter("lockstep_gpu_allocations_total",
                   "Pieces of the GPU's memory that were handed out.",
                   static_cast<double>(memory.allocations));
}

void TellWaits(const collective::StreamWaits& waits, std::chrono::nanoseconds waited,
               Families& families) {
  constexpr char kName[] = "lockstep_gpu_stream_wait_seconds_total";
  constexpr char kHelp[] =
      "GPU time that the stream stood still for the other: compute for communication that has yet "
      "to be done, communication for what has yet to be computed.";
  families.Counter(kName, kHelp, Seconds(waits.compute), {{"stream", "compute"}});
  families.Counter(kName, kHelp, Seconds(waits.communication), {{"stream", "communication"}});
  families.Counter("lockstep_gpu_host_wait_seconds_total",
                   "Time that the executing thread has waited for the GPU.", Seconds(waited));
}

void TellHealth(const collective::DeviceHealth& health, Families& families) {
  const auto gauge = [&](const char* name, const char* help, const std::optional<double>& value,
                         Families::Labels labels = {}) {
    if (value.has_value()) families.Gauge(name, help, *value, std::move(labels));
  };
  gauge("lockstep_gpu_temperature_celsius", "The GPU's temperature.", health.temperature_celsius);
  gauge("lockstep_gpu_power_watts", "Power that the GPU takes.", health.power_watts);
  gauge("lockstep_gpu_clock_hertz", "Clocks of the GPU.", health.sm_clock_hertz, {{"clock", "sm"}});
  gauge("lockstep_gpu_clock_hertz", "Clocks of the GPU.", health.memory_clock_hertz,
        {{"clock", "memory"}});
  gauge("lockstep_gpu_slowed", "1 if the GPU's clocks are held down by what protects it.",
        health.is_slowed_by_heat, {{"by", "heat"}});
  gauge("lockstep_gpu_slowed", "1 if the GPU's clocks are held down by what protects it.",
        health.is_slowed_by_power, {{"by", "power"}});
  const auto ecc = [&](const std::optional<uint64_t>& errors, const char* kind) {
    if (!errors.has_value()) return;
    families.Counter("lockstep_gpu_ecc_errors_total",
                     "Memory errors that the GPU has seen since its driver was loaded.",
                     static_cast<double>(*errors), {{"kind", kind}});
  };
  ecc(health.corrected_ecc_errors, "corrected");
  ecc(health.uncorrected_ecc_errors, "uncorrected");
}

}  // namespace

void GpuMetrics::Tell(std::chrono::nanoseconds waited, Families& families) const {
  const collective::DeviceReport report = watch->Last();
  families.Gauge("lockstep_gpu_info", "1; the labels say which GPU the worker uses, and by what.",
                 1,
                 {{"index", std::to_string(facts.index)},
                  {"name", facts.name},
                  {"bus_id", facts.bus_id},
                  {"compute_capability", facts.capability},
                  {"cuda", facts.driver_api},
                  {"driver", report.driver_version},
                  {"nccl", facts.collectives_library}});
  TellMemory(report, capacity_bytes, families);
  TellWaits(report.waits, waited, families);
  families.Gauge("lockstep_gpu_monitored",
                 "1 if NVML watches the GPU; else what follows is not known.",
                 report.is_monitored ? 1 : 0);
  TellHealth(report.health, families);
  for (const auto& [xid, count] : report.faults) {
    families.Counter("lockstep_gpu_xids_total",
                     "XIDs that the GPU has reported, whichever process caused them.",
                     static_cast<double>(count), {{"xid", std::to_string(xid)}});
  }
}

}  // namespace lockstep::worker
