#!/usr/bin/env python3
"""Compares `graphrun serve` with `graphrun bench` and with ONNX Runtime behind a minimal Node server (server.js).

    go build -o . ./cmd/graphrun ./scripts/serveload ./scripts/barehandler
    npm install --ignore-scripts onnxruntime-node                      # in this folder, or --node-modules
    bench/peers/serve.py --graphrun ./graphrun --serveload ./serveload MODEL.onnx --dims 1,128,256 --clients 1,64

The model has one float32 input. Each round measures, one after another: bench at batch 1 and at --batch rows, and for
each number of clients graphrun serve and the Node server; every second round in reverse order. Prints for each number
of clients rows per second and latencies in milliseconds (medians over the rounds), and the medians of the rounds'
ratios: of throughputs to that of bench at --batch rows, and of p50 to the time of bench at batch 1. With --barehandler
./barehandler it also measures the same program behind a minimal net/http handler; the ratio of both p50 is the cost of
package serve itself.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until_ready(process, url):
    deadline = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                sys.exit(f"the server does not start: {' '.join(process.args)}")
            time.sleep(0.05)


def processor_time(pid):
    """The processor time that a process has used, in milliseconds."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e3 / os.sysconf("SC_CLK_TCK")


def load(a, command, name, port, clients, environment=None):
    """Starts a server, and returns serveload's report with the processor times of a row: Server and Load."""
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
    try:
        url = f"http://127.0.0.1:{port}/v2/models/{name}"
        wait_until_ready(server, url)
        p = subprocess.Popen([a.serveload, "-url", url, "-clients", str(clients), "-for", f"{a.seconds}s", "-dims", a.dims],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = p.stderr.readline().strip()
        if line != "measuring":
            sys.exit(f"serveload: {line}")
        pids = {"Server": server.pid, "Load": p.pid}
        start = {name: processor_time(pid) for name, pid in pids.items()}
        text = p.stdout.read()
        end = {name: processor_time(pid) for name, pid in pids.items()}
        if p.wait():
            sys.exit(f"serveload: {p.stderr.read().strip()}")
        report = json.loads(text)
        if report["Errors"] or report["Wrong"] or not report["Requests"]:
            sys.exit(f"{command[0]}: {report}")
        rows = report["Requests"] * int(a.dims.split(",")[0])
        report.update({name: (end[name] - start[name]) / rows for name in pids})
        return report
    finally:
        server.terminate()
        server.wait()


def bench(a, rows):
    """The median time of a run of so many rows, in milliseconds."""
    dim = [f"--dim={d}" for d in [f"{a.symbol}={rows}", *a.dim]]
    p = subprocess.run([a.graphrun, "bench", a.model, "--json", "--for", f"{a.seconds}s", *dim], capture_output=True,
                       text=True)
    if p.returncode:
        sys.exit(f"bench: {p.stderr.strip()}")
    return json.loads(p.stdout)["median_ns"] / 1e6


def measure(a):
    """One round: a function for each measurement, by name."""
    name = os.path.splitext(os.path.basename(a.model))[0]
    node = dict(os.environ, NODE_PATH=a.node_modules)
    threads = str(os.cpu_count())

    def serve(clients):
        port = free_port()
        return load(a, [a.graphrun, "serve", a.model, "--listen", f"127.0.0.1:{port}", *a.serve_flag], name, port, clients)

    def ort(clients):
        port = free_port()
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "server.js")
        return load(a, [a.node, script, a.model, str(port), threads], "model", port, clients, node)

    def bare(clients):
        port = free_port()
        return load(a, [a.barehandler, "-listen", f"127.0.0.1:{port}", "-dims", a.dims, a.model], name, port, clients)

    jobs = {"one row": lambda: bench(a, 1), "batch": lambda: bench(a, a.batch)}
    for clients in a.clients:
        jobs["graphrun", clients] = lambda clients=clients: serve(clients)
        jobs["onnxruntime", clients] = lambda clients=clients: ort(clients)
        if a.barehandler:
            jobs["barehandler", clients] = lambda clients=clients: bare(clients)
    return jobs


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--graphrun", required=True)
    p.add_argument("--serveload", required=True)
    p.add_argument("--barehandler", help="the program of scripts/barehandler")
    p.add_argument("--dims", required=True, help="the shape of the input of a request")
    p.add_argument("--clients", type=lambda s: [int(n) for n in s.split(",")], default=[1, 64])
    p.add_argument("--batch", type=int, default=8, help="rows of the batch of bench")
    p.add_argument("--symbol", default="N", help="the symbol of the batch dimension; the model must have it")
    p.add_argument("--dim", action="append", default=[], help="another symbolic size for bench, H=96 (repeatable)")
    p.add_argument("--seconds", type=int, default=10, help="time of a measurement")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--serve-flag", action="append", default=[], help="a flag of graphrun serve (repeatable)")
    p.add_argument("--node", default="node")
    p.add_argument("--node-modules", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "node_modules"))
    a = p.parse_args()
    jobs, rounds = measure(a), []
    for k in range(a.rounds):
        names = list(jobs)
        rounds.append({name: jobs[name]() for name in (reversed(names) if k % 2 else names)})
    middle = statistics.median
    print(f"{a.model}: bench {middle([r['one row'] for r in rounds]):.3f} ms a row at batch 1, "
          f"{middle([a.batch / r['batch'] for r in rounds]) * 1e3:.1f} rows/s at batch {a.batch}")
    for clients in a.clients:
        for side in ["graphrun", "onnxruntime"] + ["barehandler"] * bool(a.barehandler):
            reports = [r[side, clients] for r in rounds]
            shares = [r[side, clients]["RowsPerSecond"] * r["batch"] / a.batch / 1e3 for r in rounds]
            waits = [r[side, clients]["P50"] / r["one row"] for r in rounds]
            print(f"{clients:4d} clients {side:12s} {middle([x['RowsPerSecond'] for x in reports]):9.1f} rows/s"
                  f" ({middle(shares):.2f} of bench), p50 {middle([x['P50'] for x in reports]):.3f} ms"
                  f" ({middle(waits):.2f} of bench), p99 {middle([x['P99'] for x in reports]):.3f} ms;"
                  f" processor time a row: server {middle([x['Server'] for x in reports]):.3f} ms,"
                  f" clients {middle([x['Load'] for x in reports]):.3f} ms")
        if a.barehandler:
            ratio = middle([r["graphrun", clients]["P50"] / r["barehandler", clients]["P50"] for r in rounds])
            print(f"{clients:4d} clients: graphrun / bare handler {ratio:.2f} by p50")
        ratio = middle([r["graphrun", clients]["RowsPerSecond"] / r["onnxruntime", clients]["RowsPerSecond"] for r in rounds])
        print(f"{clients:4d} clients: graphrun / ONNX Runtime in Node {ratio:.2f} by throughput")


if __name__ == "__main__":
    main()
