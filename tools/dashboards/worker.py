"""What does the worker of one rank do?"""

from form import CHOOSE_RANK, GOOD_IF_ZERO, dashboard, heatmap, lines, of_this_rank, stat, steps

STAGE = "lockstep_command_stage_seconds"
# One worker's metrics, added up over what it tells apart.
SUM = "sum by (%s) (%s)"


def by(label, expression):
    return SUM % (label, of_this_rank(expression))


DASHBOARD = dashboard(
    "worker",
    "worker",
    "What the worker of the chosen rank does, holds and waits for.",
    [
        stat(
            "Is it connected with all ranks?",
            "No while it starts, and while another rank is lost or missing.",
            "short",
            {"connected": of_this_rank("lockstep_worker_ready")},
            colors=steps("red", (1, "green")),
            words={0: "no", 1: "yes"},
        ),
        stat(
            "When was it last heard?",
            "By the controller. It is lost when that is worker_timeout ago; then nothing is shown.",
            "s",
            {"age": 'lockstep_rank_heartbeat_age_seconds{rank="$rank"}'},
            colors=steps("green", (1, "orange")),
        ),
        stat(
            "When did it last hear the controller?",
            "After controller_timeout it gives the controller up, and looks for one.",
            "s",
            {"age": of_this_rank("lockstep_controller_heartbeat_age_seconds")},
            colors=steps("green", (2, "orange"), (10, "red")),
        ),
        stat(
            "Is it stuck?",
            "It has executed one command of its own for longer than stuck_after. `lockstep why` shows the stack.",
            "short",
            {"stuck": 'lockstep_rank_stuck{rank="$rank"}'},
            colors=steps("green", (1, "orange")),
            words={0: "no", 1: "yes"},
        ),
        stat(
            "How many commands are begun and not finished?",
            "1 for long: a command that does not end, or a collective that waits for another rank.",
            "short",
            {"under way": of_this_rank("lockstep_launched_commands_total - lockstep_completed_commands_total")},
        ),
        stat(
            "How many batches wait for it?",
            "Ordered by the controller, and not taken yet.",
            "short",
            {"queued": 'lockstep_rank_queued_batches{rank="$rank"}'},
            colors=steps("green", (100, "orange")),
        ),
        lines(
            "Which commands does it execute?",
            "Commands a second, by kind. `release` and `empty` are registers that come and go.",
            "ops",
            {"{{kind}}": by("kind", "rate(lockstep_commands_total[$rate])")},
        ),
        lines(
            "Where do its commands spend their time?",
            "The mean time in each stage. Much `transit` or `waiting` means that commands come faster than they "
            "are executed.",
            "s",
            {
                "{{stage}}": by("stage", f"rate({STAGE}_sum[$rate])")
                + " / "
                + by("stage", f"rate({STAGE}_count[$rate])")
            },
        ),
        heatmap(
            "How long does it execute a command?",
            "A sample of all commands, by how long they took. A second band far above the first is what to look for.",
            "s",
            by("le", f'increase({STAGE}_bucket{{stage="executing"}}[$rate])'),
        ),
        lines(
            "What share of its time is it in collectives?",
            "Waiting for late ranks included. A rank with less than the others is the one they wait for.",
            "percentunit",
            {"{{operation}}": by("operation", 'rate(lockstep_transfer_seconds_sum{backend!="socket"}[$rate])')},
        ),
        lines(
            "How much does it move?",
            "Over its bus, as nccl-tests count; copies to and from clients by their size.",
            "Bps",
            {"{{operation}}": by("operation", "rate(lockstep_transfer_bus_bytes_total[$rate])")},
        ),
        lines(
            "How much memory does it hold?",
            "Tensors in registers, tensors in the arena, and what the arena has taken of the host.",
            "bytes",
            {
                "registers": of_this_rank("lockstep_register_bytes"),
                "arena, tensors": of_this_rank("lockstep_arena_live_bytes"),
                "arena, taken": of_this_rank("lockstep_arena_reserved_bytes"),
            },
        ),
        lines(
            "Do commands fail on it?",
            "Failures a second, by code. One rank alone is a fault of that host; all ranks, one of the program.",
            "cps",
            {"{{code}}": by("code", "rate(lockstep_worker_errors_total[$rate])")},
        ),
        stat(
            "Was it interrupted?",
            "In the time shown: aborts of sessions that it was told of, and how often it found a controller again.",
            "short",
            {
                "aborts": of_this_rank("increase(lockstep_worker_aborts_total[$shown])"),
                "reconnects": of_this_rank("increase(lockstep_reconnects_total[$shown])"),
            },
            width=12,
            colors=GOOD_IF_ZERO,
            decimals=0,
        ),
        lines(
            "Does it find its plans lowered?",
            "Uses a second of programs and reshards that were lowered before (hits) or had to be (misses), and those "
            "that were forgotten for want of room.",
            "ops",
            {
                f"{{{{cache}}}}, {name}": by("cache", f"rate(lockstep_plan_cache_{name}_total[$rate])")
                for name in ("hits", "misses", "evictions")
            },
        ),
    ],
    variables=[CHOOSE_RANK],
)
