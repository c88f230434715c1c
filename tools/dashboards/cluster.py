"""Is the cluster well, and does it do something? The one to begin with."""

from form import FULL, GOOD_IF_ZERO, bars, dashboard, each_rank, last_by_rank, lines, names, stat, steps, timeline

DASHBOARD = dashboard(
    "cluster",
    "cluster",
    "Whether a cluster is well, and what it does. The other dashboards say more of each part.",
    [
        stat(
            "Is every rank ready?",
            "The share of ranks whose worker is ready. Below 100% no session goes on that needs all ranks.",
            "percentunit",
            {"ready": 'sum(lockstep_workers{state="ready"}) / sum(lockstep_workers)'},
            colors=steps("red", (1, "green")),
        ),
        stat(
            "In which state are the ranks that are not ready?",
            "Missing: it never came. Lost: it was there. Waiting and joining pass by themselves. `lockstep "
            "status` says why.",
            "short",
            {"{{state}}": 'sum by (state) (lockstep_workers{state!="ready"})'},
            width=8,
            colors=GOOD_IF_ZERO,
        ),
        stat(
            "How many sessions are open, and how many have failed?",
            "A failed session waits for its client's Reset(); `lockstep sessions` shows the cause of each.",
            "short",
            {"open": "sum(lockstep_sessions)", "failed": "sum(lockstep_sessions_failed)"},
        ),
        stat(
            "Were workers lost, and replaced?",
            "In the time shown. Losses without as many replacements leave ranks that nobody has.",
            "short",
            {
                "lost": "sum(increase(lockstep_workers_lost_total[$shown]))",
                "replaced": "sum(increase(lockstep_workers_replaced_total[$shown]))",
            },
            decimals=0,
        ),
        names(
            "Which version runs?",
            "Of the controller and of all workers. It has to be one; two are seen only while an upgrade is under way.",
            {"{{version}}": "count by (version) (lockstep_build_info)"},
        ),
        timeline(
            "When was a rank away, or stuck?",
            "Stuck: it has executed one command of its own for longer than stuck_after. `lockstep why` says "
            "which command.",
            {
                "rank {{rank}}": "sum by (rank) ((1 + lockstep_rank_stuck) and lockstep_rank_heartbeat_age_seconds"
                " or 0 * lockstep_rank_stuck)"
            },
            ((0, "lost or missing", "red"), (1, "there", "green"), (2, "stuck", "orange")),
        ),
        lines(
            "How many commands does each rank finish?",
            "All ranks execute the same commands, so their lines lie on each other. One that is lower falls behind.",
            "ops",
            {"rank {{rank}}": "sum by (rank) (rate(lockstep_rank_completed_commands_total[$rate]))"},
        ),
        lines(
            "How much do collectives carry?",
            "What they carry over the bus of all ranks together, as nccl-tests count it.",
            "Bps",
            {"{{operation}}": "sum by (operation) (rate(lockstep_transfer_bus_bytes_total[$rate]))"},
        ),
        lines(
            "How long do requests take?",
            "From the arrival of a sync, fetch or store at the controller to its answer. A sync waits for what "
            "was sent before.",
            "s",
            {
                f"{share}%": f"histogram_quantile(0.{share}, sum by (le) (rate(lockstep_request_seconds_bucket[$rate])))"
                for share in (50, 99)
            },
        ),
        lines(
            "Does a rank fall behind?",
            "Batches that were ordered and that the rank has not taken yet. One rank far above the others holds "
            "them up.",
            "short",
            {"rank {{rank}}": "sum by (rank) (lockstep_rank_queued_batches)"},
        ),
        lines(
            "By what do sessions fail?",
            "Failures a second, by the code of the first cause. ABORTED is a client's own reset.",
            "cps",
            {"{{code}}": "sum by (code) (rate(lockstep_errors_total[$rate]))"},
            width=8,
        ),
        bars(
            "Which rank comes last?",
            "The share of collectives to which this rank came last. With equal ranks each has the same share.",
            "percentunit",
            last_by_rank(),
            width=8,
            max=1,
        ),
        bars(
            "How full is each rank's memory?",
            "What tensors have of the arena. At 100% the next tensor fails with RESOURCE_EXHAUSTED.",
            "percentunit",
            each_rank("lockstep_arena_live_bytes / lockstep_arena_capacity_bytes"),
            width=8,
            colors=FULL,
            max=1,
        ),
    ],
)
