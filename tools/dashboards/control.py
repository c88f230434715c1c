"""Do commands get through the controller, and how fast?"""

from form import FULL, GOOD_IF_ZERO, dashboard, heatmap, lines, stat, steps

STAGE = "lockstep_command_stage_seconds"
REQUEST = "lockstep_request_seconds"
WINDOW = "max(lockstep_flow_under_way_max_bytes / lockstep_flow_window_bytes)"

DASHBOARD = dashboard(
    "control",
    "control plane",
    "How commands get from clients through the controller to the workers: latency, queues, and who is slowed down.",
    [
        stat(
            "How many batches are put in order?",
            "A batch is what a client sends at a time: one command, or many.",
            "ops",
            {"batches": "sum(rate(lockstep_ordered_batches_total[$rate]))"},
        ),
        stat(
            "How full is the window of the client that is ahead most?",
            "Near 100% the client waits for the slowest worker: the queue is as long as it may get "
            "(flow_window_bytes).",
            "percentunit",
            {"filled": WINDOW},
            colors=FULL,
        ),
        stat(
            "How old is the oldest heartbeat?",
            "Of workers that are there. One is lost when worker_timeout has passed.",
            "s",
            {"oldest": "max(lockstep_rank_heartbeat_age_seconds)"},
            colors=steps("green", (1, "orange")),
        ),
        stat(
            "How many sessions have failed?",
            "And were not reset since. Their clients have to call Reset(), or have gone.",
            "short",
            {"failed": "sum(lockstep_sessions_failed)"},
            colors=GOOD_IF_ZERO,
        ),
        stat(
            "What became of sessions?",
            "In the time shown: opened, taken up again after the controller was lost, attached to by another client.",
            "short",
            {
                what: f"sum(increase(lockstep_sessions_{what}_total[$shown]))"
                for what in ("opened", "resumed", "attached")
            },
            width=8,
            decimals=0,
        ),
        heatmap(
            "How long do requests take?",
            "From the arrival of a sync, fetch, store, locate, reset or close to its answer, by how many took "
            "how long.",
            "s",
            f"sum by (le) (increase({REQUEST}_bucket[$rate]))",
        ),
        lines(
            "How long do the slowest requests take?",
            "So long at most take half of them, 90% and 99%. A sync's time is mostly that of the commands before it.",
            "s",
            {
                f"{share}%": f"histogram_quantile(0.{share}, sum by (le) (rate({REQUEST}_bucket[$rate])))"
                for share in (50, 90, 99)
            },
        ),
        lines(
            "How many requests are answered?",
            "Those that wait for an answer; calls do not. Many of them are a program that looks at every step.",
            "reqps",
            {"requests": f"sum(rate({REQUEST}_count[$rate]))"},
        ),
        lines(
            "Where is the time of a command on its way?",
            "The mean over workers, before it is executed. `batching` is the client's, `ordering` the controller's.",
            "s",
            {
                "{{stage}}": f'sum by (stage) (rate({STAGE}_sum{{stage!="executing"}}[$rate]))'
                f' / sum by (stage) (rate({STAGE}_count{{stage!="executing"}}[$rate]))'
            },
        ),
        lines(
            "How much is on its way to the workers?",
            "Bytes of commands that the slowest worker has yet to execute. A session near the window is slowed down.",
            "bytes",
            {
                "all sessions": "sum(lockstep_flow_under_way_bytes)",
                "the one with most": "max(lockstep_flow_under_way_max_bytes)",
                "window": "max(lockstep_flow_window_bytes)",
            },
        ),
        lines(
            "Which rank has a queue?",
            "Batches that were ordered and that the rank has not taken yet. All ranks alike: clients send faster "
            "than they work.",
            "short",
            {"rank {{rank}}": "sum by (rank) (lockstep_rank_queued_batches)"},
            colors=steps("transparent", (100, "orange")),
        ),
        lines(
            "How old are the ranks' heartbeats?",
            "They come every heartbeat_interval. One that grows and falls again is a host that is overloaded, or "
            "a bad wire.",
            "s",
            {"rank {{rank}}": "max by (rank) (lockstep_rank_heartbeat_age_seconds)"},
        ),
        lines(
            "Are sessions aborted and reset?",
            "A second. An abort without a reset is a session that nobody goes on with.",
            "cps",
            {
                "aborts": "sum(rate(lockstep_aborts_total[$rate]))",
                "resets": "sum(rate(lockstep_resets_total[$rate]))",
            },
        ),
        stat(
            "Was the controller, or the world, another one?",
            "In the time shown: how often a cluster's epoch changed, and how often workers found a "
            "controller again.",
            "short",
            {
                "epochs": 'sum(changes(max by (lockstep_cluster) (lockstep_epoch)[$shown:15s]))',
                "reconnects": "sum(increase(lockstep_reconnects_total[$shown]))",
            },
            width=24,
            colors=steps("green", (1, "orange")),
            decimals=0,
        ),
    ],
)
