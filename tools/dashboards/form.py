"""What Grafana wants to read: panels, and dashboards of them.

In queries, every metric is one of the chosen cluster's, and what is added up or joined is of one cluster: selectors and
labels are put in here. `[$rate]` stands for an interval with enough samples for a rate, `[$shown]` for the time that
the dashboard shows.
"""

import re

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# The labels by which one Prometheus tells clusters apart: what scrapes them sets the first, and an operator the second.
APART = ("lockstep_cluster", "namespace")
CLUSTER = 'lockstep_cluster=~"$cluster", namespace=~"$namespace"'
AGGREGATION = re.compile(r"\b(sum|min|max|avg|count|count_values)\b(?: by \(([^)]*)\))? ?\(")
# Half-transparent, without points: many ranks are lines on top of each other.
LINE = {"lineWidth": 1, "fillOpacity": 8, "showPoints": "never", "spanNulls": False}
LATEST = {"values": False, "calcs": ["lastNotNull"], "fields": ""}
TO_WORKER = {
    "title": "Worker of rank ${__field.labels.rank}",
    "url": "/d/lockstep-worker?var-rank=${__field.labels.rank}&${datasource:queryparam}&${cluster:queryparam}"
    "&${namespace:queryparam}&${__url_time_range}",
}


def by_rank(expression, *labels):
    """A worker's metrics by its rank, which they do not say: lockstep_worker_rank of the same process does."""
    by = ", ".join(("rank", *labels))
    rank = 'count_values by (instance) ("rank", lockstep_worker_rank >= 0)'
    return f"sum by ({by}) (({expression}) * on (instance) group_left (rank) {rank})"


def each_rank(expression):
    """A line for each rank, of what its worker says."""
    return {"rank {{rank}}": by_rank(expression)}


def last_by_rank():
    """Of all collectives, the share to which each rank came last."""
    last = "rate(lockstep_collective_last_total[$rate])"
    return {"rank {{rank}}": f"sum by (rank) ({last}) / on () group_left () sum({last})"}


def of_this_rank(expression):
    """What the worker of the chosen rank says."""
    return f"{expression} and on (instance) (lockstep_worker_rank == $rank)"


def apart(labels):
    """These labels, and those that tell clusters apart."""
    return f"({', '.join((*APART, *filter(None, labels.split(', '))))})"


def query_text(expression):
    def select(found):
        name, labels = found.group(1), found.group(2) or ""
        if name == "lockstep_cluster":  # a label
            return name
        return f"{name}{{{', '.join(filter(None, (CLUSTER, labels)))}}}"

    text = AGGREGATION.sub(lambda found: f"{found.group(1)} by {apart(found.group(2) or '')} (", expression)
    text = re.sub(r"\bon \(([^)]*)\)", lambda found: f"on {apart(found.group(1))}", text)
    text = re.sub(r"\b(lockstep_[a-z0-9_]+)(?:\{([^}]*)\})?", select, text)
    return text.replace("[$rate]", "[$__rate_interval]").replace("[$shown", "[$__range")


def steps(base, *limits):
    """Colours: the one to begin with, then (from which value on, colour)."""
    return [{"color": base, "value": None}] + [{"color": color, "value": value} for value, color in limits]


GOOD_IF_ZERO = steps("green", (1, "red"))
FULL = steps("green", (0.8, "orange"), (0.9, "red"))


def panel(kind, title, description, unit, queries, *, width, height, options, **more):
    """`queries`: what each is called in the legend, and its text. `more`: of the field's defaults."""
    defaults = {"unit": unit, **more.pop("defaults", {})}
    if any("{{rank}}" in legend for legend in queries):
        defaults["links"] = [TO_WORKER]
    target = more.pop("target", {})
    return {
        "id": None,
        "title": title,
        "description": description,
        "type": kind,
        "datasource": SOURCE,
        "gridPos": {"x": 0, "y": 0, "w": width, "h": height},
        "fieldConfig": {"defaults": defaults, "overrides": more.pop("overrides", [])},
        "options": options,
        "targets": [
            {"refId": chr(ord("A") + i), "expr": query_text(text), "legendFormat": legend, **target}
            for i, (legend, text) in enumerate(queries.items())
        ],
        **more,
    }


def colored(colors, defaults):
    if not colors:
        return {"color": {"mode": "fixed", "fixedColor": "text"}, **defaults}
    return {"color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": colors}, **defaults}


def stat(title, description, unit, queries, *, width=4, colors=None, words=None, **defaults):
    """One number for each query. `words`: what to show instead of some values."""
    if words:
        defaults["mappings"] = [{"type": "value", "options": {str(k): {"text": v} for k, v in words.items()}}]
    options = {"reduceOptions": LATEST, "colorMode": "value", "graphMode": "none", "textMode": "auto"}
    # Of several numbers each is named.
    if len(queries) > 1 or "{{" in next(iter(queries)):
        options["textMode"] = "value_and_name"
    return panel(
        *("stat", title, description, unit, queries),
        width=width,
        height=4,
        options=options,
        defaults=colored(colors, defaults),
    )


def names(title, description, queries, *, width=4):
    """The legends themselves: for what is said by labels."""
    return panel(
        *("stat", title, description, "short", queries),
        width=width,
        height=4,
        options={"reduceOptions": LATEST, "colorMode": "none", "graphMode": "none", "textMode": "name"},
    )


def lines(title, description, unit, queries, *, width=12, colors=None, **defaults):
    defaults = {"min": 0, "custom": dict(LINE), **defaults}
    if colors:
        defaults["thresholds"] = {"mode": "absolute", "steps": colors}
        defaults["custom"]["thresholdsStyle"] = {"mode": "dashed"}
    return panel(
        *("timeseries", title, description, unit, queries),
        width=width,
        height=8,
        options={
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        defaults=defaults,
    )


def bars(title, description, unit, queries, *, width=12, colors=None, **defaults):
    """The latest values side by side."""
    return panel(
        *("bargauge", title, description, unit, queries),
        width=width,
        height=8,
        options={"reduceOptions": LATEST, "orientation": "horizontal", "displayMode": "gradient", "showUnfilled": True},
        defaults=colored(colors or steps("blue"), {"min": 0, **defaults}),
    )


def heatmap(title, description, unit, expression, *, width=12):
    """Of a histogram, by `le`."""
    return panel(
        *("heatmap", title, description, unit, {"{{le}}": expression}),
        width=width,
        height=8,
        options={
            "calculate": False,
            "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
            "yAxis": {"unit": unit, "axisPlacement": "left"},
            "cellGap": 1,
            "tooltip": {"mode": "single", "yHistogram": True},
        },
        target={"format": "heatmap"},
    )


def timeline(title, description, queries, words, *, width=24):
    """Values that stand for states: (value, word, colour)."""
    mapping = {str(value): {"text": word, "color": color} for value, word, color in words}
    return panel(
        *("state-timeline", title, description, "short", queries),
        width=width,
        height=6,
        options={"mergeValues": True, "showValue": "never", "rowHeight": 0.8, "legend": {"showLegend": True}},
        defaults={"mappings": [{"type": "value", "options": mapping}], "custom": {"fillOpacity": 80}},
    )


def table(title, description, columns, *, width=24, hide=()):
    """`columns`: header, unit and query of each; rows are what has the same labels."""
    one = len(columns) == 1
    rename = {f"Value #{chr(ord('A') + i)}": header for i, (header, _, _) in enumerate(columns)}
    return panel(
        *("table", title, description, columns[0][1], {header: query for header, _, query in columns}),
        width=width,
        height=8,
        options={"showHeader": True, "cellHeight": "sm"},
        target={"format": "table", "instant": True},
        overrides=[
            {"matcher": {"id": "byName", "options": header}, "properties": [{"id": "unit", "value": unit}]}
            for header, unit, _ in columns
        ],
        transformations=[
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {name: True for name in ("Time", *APART, *hide)},
                    "renameByName": {"Value": columns[0][0]} if one else rename,
                },
            },
        ],
    )


def place(panels):
    """From left to right, in lines of 24 columns."""
    x = y = below = 0
    for number, each in enumerate(panels, 1):
        grid = each["gridPos"]
        if x + grid["w"] > 24:
            x, y = 0, below
        each["id"] = number
        grid["x"], grid["y"] = x, y
        x, below = x + grid["w"], max(below, y + grid["h"])
    return panels


def variable(name, label, query, **more):
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        **more,
    }


# One at a time: panels of all clusters would be lines without a name. A scrape configuration that sets no such labels has
# one cluster, and there is nothing to choose. docker/compose.yaml calls its cluster "lockstep"; the chart puts the names
# of its release in the place of both.
CHOOSE_CLUSTER = variable(
    *("cluster", "Cluster", "label_values(lockstep_epoch, lockstep_cluster)"),
    sort=1,
    current={"text": "lockstep", "value": "lockstep"},
)
CHOOSE_NAMESPACE = variable(
    *("namespace", "Namespace", 'label_values(lockstep_epoch{lockstep_cluster=~"$cluster"}, namespace)'),
    sort=1,
    current={"text": "", "value": ""},
)
CHOOSE_RANK = variable(
    *("rank", "Rank", "query_result(" + query_text('count_values("rank", lockstep_worker_rank >= 0)') + ")"),
    sort=3,
    regex='/rank="([0-9]+)"/',
    current={"text": "0", "value": "0"},
)


def dashboard(name, title, description, panels, *, variables=()):
    return {
        "uid": f"lockstep-{name}",
        "title": f"Lockstep: {title}",
        "description": description,
        "tags": ["lockstep"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "time": {"from": "now-15m", "to": "now"},
        "refresh": "10s",
        "timezone": "browser",
        "links": [
            {
                "type": "dashboards",
                "title": "Lockstep",
                "tags": ["lockstep"],
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                CHOOSE_CLUSTER,
                CHOOSE_NAMESPACE,
                *variables,
            ]
        },
        "panels": place(panels),
    }
