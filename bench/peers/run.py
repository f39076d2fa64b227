#!/usr/bin/env python3
"""Compares graphrun with PyTorch, NumPy, ONNX Runtime and the machine's limits: see README.md."""
import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import layers
import models
import rows
from absent import Absent, Failed

HERE = os.path.dirname(os.path.abspath(__file__))
CALLS = {"graphrun": "into", "release": "released", "run": ""}  # side -> prefix of its times in bench's document
OURS = (*CALLS, "loop")
SIDES = (*OURS, "torch", "numpy", "ort", "limit")
TITLES = {"graphrun": "graphrun", "release": "with Release", "run": "new memory", "loop": "loop in the arena",
          "torch": "PyTorch", "numpy": "NumPy", "ort": "ONNX Runtime", "limit": "C"}
UNITS = {"ms": 1, "us": 1e3, "ns": 1e6}
BUSY = 0.10  # figures are doubtful if other processes use more than this part of the machine


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.absent = {}  # side -> why it is not measured
        self.documents = {}  # documents of bench, with the sides that have not used them yet
        self.find_sides()

    def find_sides(self):
        o = self.options
        for side, check in (("graphrun", [o.graphrun, "version"]), ("torch", [o.python, "-c", "import torch"]),
                            ("numpy", [o.python, "-c", "import numpy"]),
                            ("ort", [o.node, "-e", "require('onnxruntime-node')"])):
            if side not in o.sides:
                self.absent[side] = "it is not among --sides"
                continue
            try:
                p = subprocess.run(check, capture_output=True, text=True, env=self.environment(side, 1),
                                   cwd=self.folder)
                if p.returncode:
                    self.absent[side] = last_line(p.stderr)
            except OSError as e:
                self.absent[side] = str(e)
        for side in OURS[1:]:
            left_out = "it is not among --sides"
            if side not in o.sides or "graphrun" in self.absent and self.absent["graphrun"] != left_out:
                self.absent[side] = self.absent.get("graphrun") if side in o.sides else left_out
        try:
            import onnx  # noqa: F401
        except ImportError as e:
            self.absent.setdefault("ort", f"models cannot be written: {e}")
        if "limit" not in o.sides:
            self.absent["limit"] = "it is not among --sides"
            return
        self.limits = os.path.join(self.folder, "limits")
        try:
            p = subprocess.run([o.cc, "-O3", "-march=native", "-fopenmp", os.path.join(HERE, "limits.c"), "-o",
                                self.limits], capture_output=True, text=True)
            if p.returncode:
                self.absent["limit"] = last_line(p.stderr)
        except OSError as e:
            self.absent["limit"] = str(e)

    def environment(self, side, threads):
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads),
               "MKL_NUM_THREADS": str(threads), "PYTHONDONTWRITEBYTECODE": "1"}
        if side == "torch" and self.options.aten:
            env["ATEN_CPU_CAPABILITY"] = self.options.aten
            if self.options.aten == "avx512":  # OpenBLAS uses AVX2 on unknown processors
                env.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
        if side in ("torch", "numpy"):
            # Freed memory is reused; otherwise each result would touch new pages.
            env.update(MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_=str(1 << 40), MALLOC_TOP_PAD_=str(1 << 28))
        if side == "ort" and self.options.node_modules:
            env["NODE_PATH"] = self.options.node_modules
        return env

    def turn(self, side, row, threads):
        """Runs a process of a side; returns its time for one operation of a row in milliseconds."""
        if side in self.absent:
            raise Absent(self.absent[side])
        ms = self.by_call(side, row, threads) if side in CALLS else getattr(self, "by_" + side)(row, threads)
        return ms / (row.count if side in (*OURS, "torch", "numpy") else 1)

    def output(self, side, threads, command):
        p = subprocess.run(command, capture_output=True, text=True, env=self.environment(side, threads))
        if p.returncode:
            raise Failed(last_line(p.stderr))
        return json.loads(p.stdout.strip().splitlines()[-1] if side != "graphrun" else p.stdout)

    def file(self, row, arena):
        path = os.path.join(self.folder, row.name + (".arena" if arena else "") + ".json")
        if not os.path.exists(path):
            with open(path, "w") as f:
                json.dump(rows.graph(row, arena), f)
        return path

    def by_call(self, side, row, threads):
        return self.call(side, self.file(row, False), threads, [])

    def call(self, side, path, threads, more):
        """The median time of one kind of call. One process of bench measures all kinds alternately."""
        doc, left = self.documents.get((path, threads), (None, ()))
        if side not in left:
            doc, left = self.graphrun(path, threads, more), tuple(CALLS)
        self.documents[path, threads] = doc, tuple(s for s in left if s != side)
        return (doc[CALLS[side]] if CALLS[side] else doc)["median_ns"] / 1e6

    def by_loop(self, row, threads):
        if row.whole:
            raise Absent("its result is no single step's")
        doc = self.graphrun(self.file(row, True), threads, ["--profile"])
        # The step of the result may have another name, because the plan may add a copy before or after a view.
        steps = [s for s in doc["by_step"] if s["name"] != "tail"]
        if not steps:
            raise Failed(f"no step makes {row.nodes[-1]['name']}")
        if row.small:
            return sum(s["time_ns"] for s in steps) / 1e6
        return doc["into"]["median_ns"] / 1e6

    def graphrun(self, path, threads, more):
        o = self.options
        return self.output("graphrun", threads, [o.graphrun, "bench", path, "--threads", str(threads), "--for",
                                                 f"{o.seconds}s", "--json", *more])

    def python_side(self, side, row, threads):
        return self.output(side, threads, [self.options.python, os.path.join(HERE, "side.py"), side, row.name,
                                           str(threads), str(self.options.seconds)])["ms"]

    def strategy(self):
        return ["--strategy", self.options.strategy] if self.options.strategy else []

    def network(self, name, threads):
        o = self.options
        return self.output("torch", threads, [o.python, os.path.join(HERE, "side.py"), "network", f"{o.networks}:{name}",
                                              str(threads), str(o.seconds)])["ms"]

    def by_torch(self, row, threads):
        return self.python_side("torch", row, threads)

    def by_numpy(self, row, threads):
        if row.numpy is None:
            raise Absent("NumPy has no such operation")
        if threads > 1:
            raise Absent("NumPy has one thread")
        return self.python_side("numpy", row, threads)

    def by_ort(self, row, threads):
        if row.onnx is None:
            raise Absent("ONNX Runtime is not asked")
        spec = os.path.join(self.folder, row.name + ".ort.json")
        if not os.path.exists(spec):
            models.write(row, self.folder)
        return self.ort(spec, threads)

    def ort(self, spec, threads):
        return self.output("ort", threads, [self.options.node, os.path.join(HERE, "side_ort.js"), spec, str(threads),
                                            str(self.options.seconds)])["ms"]

    def by_limit(self, row, threads):
        if row.limit is None:
            raise Absent("there is none")
        return self.limit(threads, *row.limit)["ms"]

    def limit(self, threads, *case):
        return self.output("limit", threads, [self.limits, str(threads), str(self.options.seconds), *map(str, case)])


class Model:
    """A whole model as a row, for graphrun, ONNX Runtime, and PyTorch if a script builds it."""
    count, unit, bytes = 1, "ms", 0

    def __init__(self, path, title, to):
        self.name = self.title = title
        self.path, self.spec, self.why, self.dims = path, to, "", []
        try:
            sizes = models.whole(path, to)
            self.dims = [x for name, n in sizes.items() for x in ("--dim", f"{name}={n}")]
        except Exception as e:  # onnx raises many types of exceptions
            self.spec, self.why = None, str(e)


def whole_models(paths, folder):
    """The models of some files. The titles are the distinct parts of the paths, since many files are model.onnx."""
    short = [os.path.splitext(os.path.basename(p))[0] for p in paths]
    if len(set(short)) < len(short):
        parts = [os.path.abspath(p).split(os.sep) for p in paths]
        differ = [i for i in range(max(map(len, parts)), 0, -1) if len({tuple(p[-i:-i + 1 or None]) for p in parts}) > 1]
        short = ["/".join(p[-differ[0]:-differ[-1] + 1 or None]) for p in parts] if differ else short
    return [Model(p, title, os.path.join(folder, f"{i}.ort.json")) for i, (p, title) in enumerate(zip(paths, short))]


class ModelBench:
    """Measures whole models."""
    def __init__(self, bench):
        self.bench = bench

    def turn(self, side, row, threads):
        if side in self.bench.absent:
            raise Absent(self.bench.absent[side])
        if side in CALLS:
            return self.bench.call(side, row.path, threads, row.dims + self.bench.strategy())
        if side == "loop":
            raise Absent("whole models copy their results to the caller")
        if side == "ort":
            if row.spec is None:
                raise Failed(row.why)
            return self.bench.ort(row.spec, threads)
        if side == "torch" and self.bench.options.networks:
            return self.bench.network(row.title, threads)
        raise Absent("whole models are compared with ONNX Runtime, and with PyTorch where --networks can build them")


def last_line(text):
    lines = [x for x in text.strip().splitlines() if x.strip()]
    errors = [x for x in lines if re.match(r"(\w+Error|Error|graphrun)\b", x)]
    return (errors or lines or ["it failed without a message"])[-1].strip()


def machine_time():
    """The busy time of all processors, and that of our child processes, in seconds."""
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        with open("/proc/stat") as f:
            t = [int(x) for x in f.readline().split()[1:9]]
        return (sum(t) - t[3] - t[4]) / os.sysconf("SC_CLK_TCK"), ours.ru_utime + ours.ru_stime
    except OSError:
        return 0.0, 0.0


def measure(bench, row, threads, rounds):
    """Measures all sides alternately, so that disturbances affect all of them. Returns the times by side, and the part
    of the machine that other processes used."""
    times, why, busy = {s: [] for s in SIDES}, {}, []
    for turn in range(rounds):
        order = SIDES if turn % 2 == 0 else SIDES[::-1]
        for side in order:
            if side in why:
                continue
            start, (all0, own0) = time.monotonic(), machine_time()
            try:
                times[side].append(bench.turn(side, row, threads))
            except Absent as e:
                why[side] = str(e)
                if isinstance(e, Failed):
                    print(f"{row.title}, T={threads}: {TITLES[side]}: {e}", file=sys.stderr)
                continue
            all1, own1 = machine_time()
            busy.append(max(0.0, (all1 - all0) - (own1 - own0)) / (os.cpu_count() * (time.monotonic() - start)))
    return {"row": row.name, "title": row.title, "unit": row.unit, "bytes": row.bytes, "threads": threads,
            "times": times, "absent": why, "flops": getattr(row, "flops", 0),
            "busy": statistics.median(busy) if busy else 0.0}


def ratio(result, side, by="graphrun"):
    """The median over the rounds of the ratio of two sides' times; None if one of them has no times."""
    pairs = list(zip(result["times"][side], result["times"][by]))
    return statistics.median(a / b for a, b in pairs) if pairs else None


def cells(result):
    out = [result["title"], str(result["threads"])]
    for side in SIDES:
        t = result["times"][side]
        out.append(f"{statistics.median(t) * UNITS[result['unit']]:.3g} {result['unit']}" if t else "-")
    for side, by in RATIOS:
        r = ratio(result, side, by)
        out.append("-" if r is None else f"{r:.2f}")
    out.append(f"{100 * result['busy']:.0f}%" + (" !" if result["busy"] > BUSY else ""))
    return out


RATIOS = (*((side, "graphrun") for side in ("torch", "numpy", "ort", "limit")), *((side, "loop") for side in CALLS))
HEADS = ["work", "T", *(TITLES[s] for s in SIDES), *(f"{TITLES[a]} / {TITLES[b]}" for a, b in RATIOS), "others"]


def markdown(results, machine):
    lines = []
    if machine:
        lines += ["| the machine | " + " | ".join(f"T={t}" for t in machine) + " |", "|---" * (len(machine) + 1) + "|"]
        for what, unit in (("copy", "GB/s"), ("triad", "GB/s"), ("fma", "GFLOP/s")):
            lines.append(f"| {what}, {unit} | " + " | ".join(f"{m[what]:.0f}" for m in machine.values()) + " |")
        lines.append("")
    lines += ["| " + " | ".join(HEADS) + " |", "|---" + "|--:" * (len(HEADS) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(cells(r)) + " |" for r in results])


def machine_limits(bench, threads):
    """STREAM's copy and triad in arrays larger than all caches, and multiply-adds in registers."""
    if "limit" in bench.absent:
        return {}
    n = 1 << 26
    return {t: {"copy": bench.limit(t, "copy", n)["gbs"], "triad": bench.limit(t, "triad", n)["gbs"],
                "fma": bench.limit(t, "fma", 200000)["gflops"]} for t in threads}


def default_aten():
    try:
        with open("/proc/cpuinfo") as f:
            return "avx512" if " avx512f" in f.read() else ""
    except OSError:
        return ""


def parse():
    names = [r.name for r in rows.all_rows()]
    p = argparse.ArgumentParser(description=__doc__, epilog="rows: " + ", ".join(names))
    p.add_argument("models", nargs="*", help="whole models, as ONNX files")
    p.add_argument("--layers", action="store_true", help="measure each distinct convolution of the models, with its "
                   "bias and activation, as a separate graph")
    p.add_argument("--networks", help="a Python file that builds models for PyTorch, by their names in tables: "
                   "scripts/networks/zoo.py")
    p.add_argument("--strategy", help="graphrun's strategy for whole models; default: graphrun's default")
    p.add_argument("--rows", default=None, help="rows to measure, separated by commas, or all; default: all, or none if models are given")
    p.add_argument("--threads", default="1,2", help="numbers of threads, separated by commas")
    p.add_argument("--rounds", type=int, default=5, help="measurements of each side")
    p.add_argument("--seconds", type=float, default=0.5, help="time of a measurement")
    p.add_argument("--sides", default=",".join(SIDES), help="sides to measure, separated by commas")
    p.add_argument("--graphrun", default="graphrun", help="the command to measure")
    p.add_argument("--python", default=sys.executable, help="a Python that has torch and numpy")
    p.add_argument("--node", default="node")
    p.add_argument("--node-modules", default=os.path.join(HERE, "node_modules"),
                   help="the folder of onnxruntime-node")
    p.add_argument("--cc", default="gcc")
    p.add_argument("--aten", default=default_aten(), help="ATEN_CPU_CAPABILITY of PyTorch; empty for its default")
    p.add_argument("--markdown", action="store_true", help="print only the tables")
    p.add_argument("--json", help="write all measurements to a file")
    p.add_argument("--graphs", help="only write the graph files of the rows, in their arena variant, to a folder")
    o = p.parse_args()
    wanted = o.rows if o.rows is not None else ("" if o.models else "all")
    o.rows = names if wanted == "all" else [r for r in wanted.split(",") if r]
    o.sides, o.threads = o.sides.split(","), [int(t) for t in o.threads.split(",")]
    if o.layers and not o.models:
        p.error("--layers requires models")
    for name in o.rows:
        if name not in names:
            p.error(f"unknown row {name}: the rows are {', '.join(names)}")
    for side in o.sides:
        if side not in SIDES:
            p.error(f"unknown side {side}: the sides are {', '.join(SIDES)}")
    if os.sep in o.graphrun:
        o.graphrun = os.path.abspath(o.graphrun)
    return o


def main():
    o = parse()
    wanted = [r for r in rows.all_rows() if r.name in o.rows]
    if o.graphs:
        os.makedirs(o.graphs, exist_ok=True)
        for r in wanted:
            with open(os.path.join(o.graphs, r.name + ".json"), "w") as f:
                json.dump(rows.graph(r, not r.whole), f)
        return
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(o, folder)
        for side, why in bench.absent.items():
            print(f"without {TITLES[side]}: {why}", file=sys.stderr)
        if "graphrun" in bench.absent and "graphrun" in o.sides:
            sys.exit(1)
        machine = machine_limits(bench, o.threads)
        work = [(bench, r) for r in wanted]
        if o.layers:
            work += [(layers.LayerBench(bench), x) for x in layers.distinct(o.models, folder)]
        else:
            work += [(ModelBench(bench), m) for m in whole_models(o.models, folder)]
        results = []
        for by, row in work:
            for t in o.threads:
                results.append(measure(by, row, t, o.rounds))
                report(results[-1], o)
    if o.json:
        with open(o.json, "w") as f:
            json.dump({"machine": machine, "results": results}, f, indent=1)
    if o.markdown:
        print(layers.table(results, machine) if o.layers else markdown(results, machine))


def report(result, o):
    head, *values = cells(result)
    line = ", ".join(f"{h} {c}" for h, c in zip(HEADS[1:], values) if c != "-")
    print(f"{head}: {line}", file=sys.stderr if o.markdown else sys.stdout, flush=True)


if __name__ == "__main__":
    main()
