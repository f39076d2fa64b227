#!/usr/bin/python3
"""Measures tree ensembles with graphrun and ONNX Runtime, in alternation.

    NODE_PATH=/path/to/node_modules scripts/trees.py --graphrun ./graphrun

The model is a TreeEnsembleRegressor of 1,000 full random trees of depth 8; a run has 10,000 rows of 28 features.
Results of the two may differ by 1e-5 of the largest.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "contrib"))
import compare  # noqa: E402


def write(path, options):
    """Writes the model, and returns the rows. Node i of a tree has the children 2i+1 and 2i+2."""
    r, inner = np.random.default_rng(1), 2 ** options.depth - 1
    count = 2 * inner + 1
    leaf = np.arange(count) >= inner
    each = {"nodes_nodeids": np.arange(count), "nodes_truenodeids": np.where(leaf, 0, 2 * np.arange(count) + 1),
            "nodes_falsenodeids": np.where(leaf, 0, 2 * np.arange(count) + 2), "target_nodeids": np.arange(inner, count),
            "target_ids": np.zeros(inner + 1, int)}
    attrs = {k: np.tile(v, options.trees).tolist() for k, v in each.items()}
    for prefix, n in (("nodes", count), ("target", inner + 1)):
        attrs[prefix + "_treeids"] = np.repeat(np.arange(options.trees), n).tolist()
    attrs["nodes_featureids"] = r.integers(0, options.columns, options.trees * count).tolist()
    attrs["nodes_values"] = r.standard_normal(options.trees * count).tolist()
    attrs["target_weights"] = r.standard_normal(options.trees * (inner + 1)).tolist()
    attrs["nodes_modes"] = (["BRANCH_LEQ"] * inner + ["LEAF"] * (inner + 1)) * options.trees
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, **attrs)
    graph = helper.make_graph([node], "trees", [helper.make_tensor_value_info("x", 1, ["N", options.columns])],
                              [helper.make_tensor_value_info("y", 1, ["N", 1])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return r.standard_normal((options.rows, options.columns)).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphrun", default="graphrun")
    parser.add_argument("--node", default="node")
    for name, default in (("trees", 1000), ("depth", 8), ("rows", 10000), ("columns", 28), ("rounds", 3), ("threads", 1)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--seconds", type=float, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, times = os.path.join(folder, "trees.onnx"), []
        x = write(path, options)
        ours = compare.run_graphrun(options, folder, path, {"x": x})["y"]
        for _ in range(options.rounds):
            r = subprocess.run([options.graphrun, "bench", path, "--inputs", os.path.join(folder, "in.npz"), "--threads",
                                str(options.threads), "--for", "%gs" % options.seconds, "--json"], capture_output=True, text=True,
                               check=True)
            theirs, ms = compare.run_ort(options, folder, path, {"x": x}, level="all", seconds=options.seconds,
                                         threads=options.threads)
            times.append((json.loads(r.stdout)["released"]["median_ns"] / 1e6, ms))
        a, b = (statistics.median(t) for t in zip(*times))
        off = float(np.abs(ours - theirs["y"]).max() / np.abs(ours).max())
        print("graphrun %.1f ms, ONNX Runtime %.1f ms, ratio %.2f; results differ by %.2g of the largest" % (a, b, a / b, off))
        sys.exit(off > 1e-5)


if __name__ == "__main__":
    main()
