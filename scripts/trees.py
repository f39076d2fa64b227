#!/usr/bin/python3
"""Measures tree ensembles with graphrun and ONNX Runtime, in alternation.

    NODE_PATH=/path/to/node_modules scripts/trees.py --graphrun ./graphrun

The model is a TreeEnsembleRegressor of 1,000 full random trees of depth 8; a run has 10,000 rows of 28 features.
Results of the two may differ by 1e-4.
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
sys.path[:0] = [os.path.join(HERE, "contrib"), os.path.join(HERE, "vectors")]
import compare  # noqa: E402
from estimators import Tree, tree_attrs  # noqa: E402


def write(path, options):
    r = np.random.default_rng(1)
    trees = [Tree(r, options.depth, options.columns, [0], ["BRANCH_LEQ"]) for _ in range(options.trees)]
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, **tree_attrs(trees, "target"))
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
        off = float(np.abs(ours - theirs["y"]).max())
        print("graphrun %.1f ms, ONNX Runtime %.1f ms, ratio %.2f; results differ by %.2g" % (a, b, a / b, off))
        sys.exit(off > 1e-4)


if __name__ == "__main__":
    main()
