"""Are fragments compiled once, and found after that?"""

from form import GOOD_IF_ZERO, dashboard, each_rank, lines, stat

COMPILES = "lockstep_fragment_compiles_total"
HITS = "lockstep_fragment_cache_hits_total"
FAILURES = "lockstep_fragment_failures_total"
SECONDS = "lockstep_fragment_compile_seconds_total"
MOVES = "lockstep_fragment_input_moves_total"
BYTES = "lockstep_fragment_input_bytes_total"

DASHBOARD = dashboard(
    "fragments",
    "fragments",
    "How fragments get to be code (compiled, found on disk, or in memory), and what moves for them. The calls of them are "
    "commands of the worker.",
    [
        stat(
            "How many are kept in memory?",
            "On the rank that has most.",
            "short",
            {"fragments": "max(lockstep_fragments_loaded)"},
            width=6,
        ),
        stat(
            "How many were compiled?",
            "In the time shown, by the workers of all hosts. A program in a loop has each of its fragments compiled once.",
            "short",
            {"compiled": f"sum(increase({COMPILES}[$shown]))"},
            width=6,
            decimals=0,
        ),
        stat(
            "How many could not be had?",
            "In the time shown: those that are wrong, and those for which the compiler is missing, too slow or too large.",
            "short",
            {"failures": f"sum(increase({FAILURES}[$shown]))"},
            width=6,
            colors=GOOD_IF_ZERO,
            decimals=0,
        ),
        stat(
            "What share was found compiled?",
            "Since the workers were started. Of workers that share a directory, one compiles and the others find.",
            "percentunit",
            {"found": f"sum({HITS}) / (sum({HITS}) + sum({COMPILES}))"},
            width=6,
        ),
        lines(
            "Which rank compiles?",
            "Compilations a second. All ranks of a host at the same time: they do not share fragment_cache.",
            "ops",
            each_rank(f"rate({COMPILES}[$rate])"),
        ),
        lines(
            "Where are they found?",
            "Fragments a second, in a worker's memory or in fragment_cache, over all ranks.",
            "ops",
            {"{{where}}": f"sum by (where) (rate({HITS}[$rate]))"},
        ),
        lines(
            "How long does a compilation take?",
            "The mean. Sessions wait for each other's, and compiler_timeout is the most that one may take.",
            "s",
            each_rank(f"rate({SECONDS}[$rate]) / rate({COMPILES}[$rate])"),
        ),
        lines(
            "What share of its time does the compiler run?",
            "It takes a core from the workers of its host. Much of it for long is a program that makes new fragments.",
            "percentunit",
            each_rank(f"rate({SECONDS}[$rate])"),
        ),
        lines(
            "On which rank can fragments not be had?",
            "Failures a second. All ranks: the fragment is wrong. One host alone: its compiler, or its directory.",
            "ops",
            each_rank(f"rate({FAILURES}[$rate])"),
        ),
        lines(
            "How much memory does compiled code take?",
            "Of the worker's own memory, beside its arena.",
            "bytes",
            each_rank("lockstep_fragments_loaded_bytes"),
        ),
        lines(
            "How many inputs are moved?",
            "Arguments a second that did not lie as they were wanted. In a loop whose data stays where it is: none.",
            "ops",
            each_rank(f"rate({MOVES}[$rate])"),
        ),
        lines(
            "How many bytes are sent for them?",
            "To each rank, of what it did not have before.",
            "Bps",
            each_rank(f"rate({BYTES}[$rate])"),
        ),
    ],
)
