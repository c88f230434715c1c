"""What do registers hold, and does it fit?"""

from form import FULL, bars, by_rank, dashboard, each_rank, lines, stat, table

FILLED = "lockstep_arena_live_bytes / lockstep_arena_capacity_bytes"

DASHBOARD = dashboard(
    "memory",
    "registers and memory",
    "What the registers of all sessions hold on each rank, and how much of the arenas that takes. GPUs have their own.",
    [
        stat(
            "How full is the fullest arena?",
            "At 100% the next tensor fails with RESOURCE_EXHAUSTED. `lockstep sessions` says who holds how much.",
            "percentunit",
            {"fullest": f"max({FILLED})"},
            width=6,
            colors=FULL,
        ),
        stat(
            "How much do registers hold?",
            "Bytes of tensors on all ranks; those that share memory count twice.",
            "bytes",
            {"bytes": "sum(lockstep_register_bytes)"},
            width=6,
        ),
        stat(
            "How many registers have a value?",
            "On the rank that has most. Growth without end is a client that keeps its DRefs.",
            "short",
            {"registers": "max(lockstep_registers)"},
            width=6,
        ),
        stat(
            "How much memory have the arenas taken?",
            "Of the hosts' shared memory, used or not, what communicators need included.",
            "bytes",
            {"taken": "sum(lockstep_arena_reserved_bytes)", "at most": "sum(lockstep_arena_capacity_bytes)"},
            width=6,
        ),
        bars(
            "How full is each rank's arena?",
            "What tensors have of what the arena may take (arena_bytes).",
            "percentunit",
            each_rank(FILLED),
            colors=FULL,
            max=1,
        ),
        lines(
            "Does an arena fill up?",
            "The same over time. A slope that never falls is a leak of registers.",
            "percentunit",
            each_rank(FILLED),
            colors=FULL,
            max=1,
        ),
        lines(
            "How many bytes do registers hold?",
            "By rank. Ranks with more than the others hold larger shards, or what is on one rank alone.",
            "bytes",
            each_rank("lockstep_register_bytes"),
        ),
        lines(
            "How many registers does each rank have?",
            "All ranks have the same registers, apart from results of collectives with a root and of teams.",
            "short",
            each_rank("lockstep_registers"),
        ),
        lines(
            "How much is taken and holds no tensors?",
            "What was used once and is kept for the next tensor, and communicators' memory.",
            "bytes",
            each_rank("lockstep_arena_reserved_bytes - lockstep_arena_live_bytes"),
        ),
        lines(
            "In how many pieces is what is used?",
            "Each tensor that is alone in its memory is a piece. Many small ones make large tensors fail early.",
            "short",
            each_rank("lockstep_arena_blocks"),
        ),
        lines(
            "How often is memory handed out?",
            "Pieces a second. A program in a loop that reuses its registers has few.",
            "ops",
            each_rank("rate(lockstep_arena_allocations_total[$rate])"),
        ),
        table(
            "What was the most that a rank ever held?",
            "Since its worker was started: what arena_bytes has to be at least, and what a quota could be.",
            [
                ("Arena", "bytes", by_rank("lockstep_arena_peak_bytes")),
                ("Tensors in registers", "bytes", by_rank("lockstep_register_peak_bytes")),
                ("Registers", "short", by_rank("lockstep_registers_peak")),
            ],
            width=12,
        ),
    ],
)
