"""Are the GPUs busy, and well?"""

from form import FULL, GOOD_IF_ZERO, by_rank, dashboard, each_rank, lines, stat, steps, table

WHO = "bus_id, compute_capability, cuda, driver, index, name, nccl"
FILLED = "lockstep_gpu_live_bytes / lockstep_gpu_capacity_bytes"
BUS = 'rate(lockstep_transfer_bus_bytes_total{backend="nccl"}[$rate])'
TIME = 'rate(lockstep_transfer_seconds_sum{backend="nccl"}[$rate])'
XIDS = "lockstep_gpu_xids_total"

DASHBOARD = dashboard(
    "gpu",
    "GPUs",
    "What the GPUs of workers do, how full their memory is, and whether they are well. Empty without GPUs.",
    [
        stat(
            "How many GPUs are used, and how many are watched?",
            "Of those that are not watched NVML tells nothing: temperature, clocks, errors are not known.",
            "short",
            {"used": "count(lockstep_gpu_info)", "watched": "sum(lockstep_gpu_monitored)"},
        ),
        stat(
            "Were XIDs reported?",
            "Since the workers were started, whichever process caused them. The worker's log has each with its time.",
            "short",
            {"reports": f"sum({XIDS}) or 0 * count(lockstep_gpu_info)"},
            colors=GOOD_IF_ZERO,
        ),
        stat(
            "Were there memory errors that could not be corrected?",
            "Since the GPUs' drivers were loaded. Any is a reason to replace the GPU's workers, and to ask for "
            "another GPU.",
            "short",
            {"uncorrected": 'sum(lockstep_gpu_ecc_errors_total{kind="uncorrected"})'},
            colors=GOOD_IF_ZERO,
        ),
        stat(
            "How many GPUs are slowed down?",
            "By what protects them: heat, which is to be mended, or the limit of power, which may be meant.",
            "short",
            {"by {{by}}": "sum by (by) (lockstep_gpu_slowed)"},
            colors=steps("green", (1, "orange")),
        ),
        stat(
            "How full is the fullest GPU?",
            "What tensors have of what they may have. At 100% the next one fails with RESOURCE_EXHAUSTED.",
            "percentunit",
            {"fullest": f"max({FILLED})"},
            colors=FULL,
        ),
        stat(
            "How fast are collectives between GPUs?",
            "Bus bandwidth of a rank on the mean, timed by the GPUs.",
            "Bps",
            {"bandwidth": f"sum({BUS}) / sum({TIME})"},
        ),
        table(
            "Which GPU does each rank use?",
            "And by which driver, CUDA and NCCL. All ranks should have the same versions.",
            [("GPUs", "short", by_rank("lockstep_gpu_info", *WHO.split(", ")))],
            hide=("Value", "GPUs"),
        ),
        lines(
            "How much of its memory do tensors have?",
            "By rank, of what they may have (device_memory_bytes, or all of the GPU's).",
            "percentunit",
            each_rank(FILLED),
            colors=FULL,
            max=1,
        ),
        lines(
            "How much memory is taken, and registered with NCCL?",
            "On all GPUs: what workers have taken, what tensors have, and how much of it collectives use without "
            "a copy.",
            "bytes",
            {
                "taken": "sum(lockstep_gpu_reserved_bytes)",
                "tensors": "sum(lockstep_gpu_live_bytes)",
                "registered": "sum(lockstep_gpu_registered_bytes)",
                "registered, tensors": "sum(lockstep_gpu_registered_live_bytes)",
            },
        ),
        lines(
            "What share of its time does a GPU wait for communication?",
            "Its compute stream stood still for collectives. Near 0 communication hides behind what is computed.",
            "percentunit",
            each_rank('rate(lockstep_gpu_stream_wait_seconds_total{stream="compute"}[$rate])'),
        ),
        lines(
            "What share of its time does the worker wait for the GPU?",
            "In syncs and copies. Near 0 the GPU may be idle: the host does not get ahead of it.",
            "percentunit",
            each_rank("rate(lockstep_gpu_host_wait_seconds_total[$rate])"),
        ),
        lines(
            "How fast is each operation between GPUs?",
            "Bus bandwidth of a rank, by operation, as nccl-tests count it.",
            "Bps",
            {"{{operation}}": f"sum by (operation) ({BUS}) / sum by (operation) ({TIME})"},
        ),
        lines(
            "How hot is each GPU?",
            "One that is hotter than its neighbours at the same work is badly cooled.",
            "celsius",
            each_rank("lockstep_gpu_temperature_celsius"),
        ),
        lines(
            "How much power does each GPU take?",
            "Much less than its neighbours' is a GPU that waits for them, or is slowed down.",
            "watt",
            each_rank("lockstep_gpu_power_watts"),
        ),
        lines(
            "At which clock does each GPU run?",
            "Of its processors. One that is lower than the others under load makes all ranks wait.",
            "hertz",
            each_rank('lockstep_gpu_clock_hertz{clock="sm"}'),
        ),
    ],
)
