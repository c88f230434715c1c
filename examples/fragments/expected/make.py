#!/usr/bin/python3
"""What NumPy finds for the programs of examples/fragments: the files beside this script.

    make.py            writes them
    make.py --check    exits with 1, and says which, if they are not what NumPy finds now; with 77 without NumPy

`few` is of five rows, or seven nodes: fewer than some clusters have workers.
"""
import pathlib
import sys

try:
    import numpy as np
except ImportError:
    print("/usr/bin/python3 has no NumPy: tools/dev setup --fragments installs it")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "data"
DIGITS = HERE.parent.parent / "digits" / "data" / "optdigits.csv"
FEW_ROWS = 5
FEW_PACKAGES = ["aalib", "matplotlib", "networkx", "numpy", "pandas", "pkg-resources", "scipy"]


def least_squares(x, y):
    return np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ y)


def logistic_regression(x, y, steps=200, rate=0.5):
    w = np.zeros(x.shape[1])
    for _ in range(steps):
        w -= rate / len(y) * (x.T @ (1 / (1 + np.exp(-x @ w)) - y))
    return w


def k_means(x, centres):
    labels = np.full(len(x), -1)
    while True:
        distances = ((x[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        nearest = distances.argmin(axis=1)
        centres = np.array([x[nearest == k].mean(axis=0) if (nearest == k).any() else np.zeros(x.shape[1])
                            for k in range(len(centres))])
        if (nearest == labels).all():
            return centres, labels
        labels = nearest


def page_rank(links, damping=0.85, tolerance=1e-12):
    """By a dense matrix, of which a row says what each node gives to one."""
    nodes = len(links)
    matrix = np.zeros((nodes, nodes))
    for node, others in enumerate(links):
        matrix[others if others else slice(None), node] = 1 / (len(others) or nodes)
    ranks = np.full(nodes, 1 / nodes)
    while True:
        old, ranks = ranks, (1 - damping) / nodes + damping * (matrix @ ranks)
        if np.abs(ranks - old).sum() <= tolerance:
            return ranks


def components(links):
    """By joining sets."""
    label = np.arange(len(links))
    for node, others in enumerate(links):
        for other in others:
            low, high = sorted((label[node], label[other]))
            label[label == high] = low
    return label.astype(np.int32)


def results():
    digits = np.loadtxt(DIGITS, delimiter=",")
    pixels, truth = digits[:, :64] / 16, np.eye(10)[digits[:, 64].astype(int)]
    table = np.loadtxt(DATA / "breast_cancer.csv", delimiter=",", skiprows=1)
    measured, is_benign = table[:, :30], table[:, 30]
    tumours = np.c_[np.ones(len(table)), (measured - measured.mean(axis=0)) / measured.std(axis=0)]
    lines = [line.split() for line in (DATA / "debian_python.txt").read_text().splitlines()]
    links = [[int(other) for other in line[1:]] for line in lines]
    few = [[line[0] for line in lines].index("python3-" + name) for name in FEW_PACKAGES]
    few_links = [[few.index(other) for other in links[node] if other in few] for node in few]

    for kind, rows, graph in (("all", slice(None), links), ("few", slice(FEW_ROWS), few_links)):
        x, y = pixels[rows], truth[rows]
        centres, labels = k_means(x, pixels[:10])
        yield f"{kind}_row_sums", x.sum(axis=1)
        yield f"{kind}_product", tumours[rows] @ (np.arange(1, 32) / 31)
        yield f"{kind}_least_squares", least_squares(x, y)
        yield f"{kind}_logistic_regression", logistic_regression(tumours[rows], is_benign[rows])
        yield f"{kind}_centres", centres
        yield f"{kind}_labels", labels.astype(np.int32)
        yield f"{kind}_page_rank", page_rank(graph)
        yield f"{kind}_components", components(graph)


def main():
    differ = []
    for name, value in results():
        path = HERE / f"{name}.npy"
        if sys.argv[1:] != ["--check"]:
            np.save(path, value)
            continue
        saved = np.load(path)
        if saved.shape != value.shape or not np.allclose(saved, value, rtol=1e-10, atol=1e-12):
            differ.append(path.name)
    if differ:
        sys.exit("NumPy finds something else than is in " + ", ".join(differ))


if __name__ == "__main__":
    main()
