"""How fast do ranks talk to each other, and which are late?"""

from form import bars, dashboard, heatmap, last_by_rank, lines, stat, table

# Not the copies of clients, which are operations of one rank.
BETWEEN = '{backend!="socket"}'
BYTES = f"rate(lockstep_transfer_bytes_total{BETWEEN}[$rate])"
BUS = f"rate(lockstep_transfer_bus_bytes_total{BETWEEN}[$rate])"
TIME = f"rate(lockstep_transfer_seconds_sum{BETWEEN}[$rate])"
COUNT = f"rate(lockstep_transfers_total{BETWEEN}[$rate])"
SKEW = "lockstep_collective_skew_seconds"


def ratio(label, above, below):
    return f"sum by ({label}) ({above}) / sum by ({label}) ({below})"


def quantile(share, histogram, labels="le"):
    return f"histogram_quantile({share}, sum by ({labels}) (rate({histogram}[$rate])))"

DASHBOARD = dashboard(
    "collectives",
    "transfers and collectives",
    "How fast operations between ranks are, by operation and backend, and which rank the others wait for.",
    [
        stat(
            "How much do collectives carry?",
            "Over the bus of all ranks together, as nccl-tests count.",
            "Bps",
            {"carried": f"sum({BUS})"},
            width=6,
        ),
        stat(
            "How often does a rank take part in one?",
            "Operations a second, on the mean over ranks.",
            "ops",
            {"operations": f"sum({COUNT}) / count(lockstep_worker_rank)"},
            width=6,
        ),
        stat(
            "What share of their time are ranks in collectives?",
            "The mean over ranks, waiting for late ones included. What is left is for functions, and idling.",
            "percentunit",
            {"share": f"sum({TIME}) / count(lockstep_worker_rank)"},
            width=6,
        ),
        stat(
            "How late is the last rank?",
            "After the first, in half of the collectives and in 99%.",
            "s",
            {"50%": quantile(0.5, f"{SKEW}_bucket"), "99%": quantile(0.99, f"{SKEW}_bucket")},
            width=6,
        ),
        lines(
            "How fast is each operation?",
            "Bus bandwidth of a rank: what crosses its bus, divided by the time, waiting for late ranks included.",
            "Bps",
            {"{{operation}}": ratio("operation", BUS, TIME)},
        ),
        lines(
            "How fast is each backend?",
            "The same, by what carries it. Of GPUs it is NCCL, timed by the GPU.",
            "Bps",
            {"{{backend}}": ratio("backend", BUS, TIME)},
        ),
        lines(
            "How long does an operation take?",
            "99% take less. Far above the mean it is late ranks, not the wire: see how late the last one comes.",
            "s",
            {"{{operation}}": quantile(0.99, f"lockstep_transfer_seconds_bucket{BETWEEN}", "le, operation")},
        ),
        lines(
            "How large are operations?",
            "The mean size, as nccl-tests count it. Bandwidth is to be judged by it: small ones are bound by latency.",
            "bytes",
            {"{{operation}}": ratio("operation", BYTES, COUNT)},
        ),
        heatmap(
            "How much later than the first does the last rank come?",
            "Of collectives that all leave together; a sample of them where there are many. Wide bands are "
            "uneven ranks.",
            "s",
            f"sum by (le) (increase({SKEW}_bucket[$rate]))",
        ),
        bars(
            "Which rank comes last?",
            "The share of collectives to which this rank came last. One far above the others holds all up.",
            "percentunit",
            last_by_rank(),
            max=1,
        ),
        lines(
            "Is it always the same rank that comes last?",
            "The same share over time. A line that stays on top is a host to look at; lines that cross are chance.",
            "percentunit",
            last_by_rank(),
            max=1,
        ),
        lines(
            "How much do clients copy?",
            "Between clients and worker-0, through shared memory on one host, or by sockets, where each chunk counts.",
            "Bps",
            {
                "{{operation}}, shared memory": "sum by (operation) (rate(lockstep_client_copy_bytes_total[$rate]))",
                "{{operation}}, socket": 'sum by (operation) (rate(lockstep_transfer_bytes_total{backend="socket"}[$rate]))',
            },
        ),
        table(
            "What has each operation done?",
            "Since the workers were started. The last bandwidth is that of the slowest rank.",
            [
                ("Operations", "short", "sum by (operation, backend) (lockstep_transfers_total)"),
                ("Bytes", "bytes", "sum by (operation, backend) (lockstep_transfer_bytes_total)"),
                ("Seconds", "s", "sum by (operation, backend) (lockstep_transfer_seconds_sum)"),
                (
                    "Last bandwidth",
                    "Bps",
                    "min by (operation, backend) (lockstep_transfer_bus_bandwidth_bytes_per_second)",
                ),
            ],
        ),
    ],
)
