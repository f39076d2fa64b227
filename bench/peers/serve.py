#!/usr/bin/env python3
"""Compares `graphrun serve` with `graphrun bench` and with ONNX Runtime behind a minimal Node server (server.js).

    go build -o . ./cmd/graphrun ./scripts/serveload ./scripts/barehandler
    npm install --ignore-scripts onnxruntime-node                      # in this folder, or --node-modules
    bench/peers/serve.py --graphrun ./graphrun --serveload ./serveload MODEL.onnx --dims 1,128,256 --clients 1,64

The model has one input, float32 or int64. Each round measures for each number of clients graphrun serve and the Node
server, after a load for --warmup-seconds; every second round in reverse order. bench runs before and after each
measurement, because the speed of shared machines changes within seconds: with one row for a single client, and with
--batch rows for several clients. The mean and the median time of bench are averages over these two runs of bench.
Prints for each number of clients rows per second, latencies in milliseconds and processor times (medians over the
rounds), and medians with quartiles of the rounds' ratios: for a single client p50 divided by the median time of
bench; for several clients rows per second divided by those of bench (--batch divided by its mean time), and also
divided by those of its median run (--batch divided by its median time). The ratios of graphrun to the other servers
are of p50 for a single client, and of rows per second for several clients. --no-node skips the Node server. With
--barehandler ./barehandler it also measures the same program behind a minimal net/http handler; the ratio to it is
the cost of package serve itself.
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
        serveload = [a.serveload, "-url", url, "-clients", str(clients), "-dims", a.dims, "-for"]
        subprocess.run([*serveload, f"{a.warmup_seconds}s"], capture_output=True)  # the next run reports errors
        p = subprocess.Popen([*serveload, f"{a.seconds}s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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
    """The times of runs of so many rows, in nanoseconds."""
    dim = [f"--dim={d}" for d in [f"{a.symbol}={rows}", *a.dim]]
    p = subprocess.run([a.graphrun, "bench", a.model, "--json", "--for", f"{a.bench_seconds}s", *dim],
                       capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"bench: {p.stderr.strip()}")
    return json.loads(p.stdout)["samples_ns"]


def compare(a, clients, measure):
    """The report of measure with the times of bench (Mean and Median, in milliseconds) and its ratios to them."""
    rows = 1 if clients == 1 else a.batch
    runs = [bench(a, rows)]
    report = measure(clients)
    runs.append(bench(a, rows))
    # Times are averaged over both benches, so that a linear change of the machine's speed cancels out.
    mean = statistics.mean(map(statistics.mean, runs)) / 1e6
    median = statistics.mean(map(statistics.median, runs)) / 1e6
    report.update(Mean=mean, Median=median, Wait=report["P50"] / median,
                  Share=report["RowsPerSecond"] * mean / rows / 1e3,
                  ShareOfMedian=report["RowsPerSecond"] * median / rows / 1e3)
    return report


def measurements(a):
    """One round: a function for each measurement, by the name of the server and the number of clients."""
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

    servers = {"graphrun": serve}
    if not a.no_node:
        servers["onnxruntime"] = ort
    if a.barehandler:
        servers["barehandler"] = bare
    return {(server, clients): lambda measure=measure, clients=clients: compare(a, clients, measure)
            for clients in a.clients for server, measure in servers.items()}


def quartiles(values):
    """The median of values with their quartiles, as text."""
    text = f"{statistics.median(values):.3f}"
    if len(values) > 1:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        text += f" ({low:.3f} to {high:.3f})"
    return text


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
    p.add_argument("--seconds", type=int, default=10, help="time of a measurement of a server")
    p.add_argument("--warmup-seconds", type=int, default=3, help="time of the load before a measurement of a server")
    p.add_argument("--bench-seconds", type=int, default=3, help="time of a run of bench")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--no-node", action="store_true", help="do not measure ONNX Runtime")
    p.add_argument("--serve-flag", action="append", default=[], help="a flag of graphrun serve (repeatable)")
    p.add_argument("--node", default="node")
    p.add_argument("--node-modules", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "node_modules"))
    a = p.parse_args()
    jobs, rounds = measurements(a), []
    for k in range(a.rounds):
        names = list(jobs)
        rounds.append({name: jobs[name]() for name in (reversed(names) if k % 2 else names)})
    print(a.model)
    for server, clients in jobs:
        reports = [r[server, clients] for r in rounds]
        median = lambda key: statistics.median(x[key] for x in reports)
        if clients == 1:
            ratio = f"p50 / bench's median {quartiles([x['Wait'] for x in reports])}"
        else:
            ratio = (f"rows per second / bench's {quartiles([x['Share'] for x in reports])},"
                     f" / its median run's {quartiles([x['ShareOfMedian'] for x in reports])}")
        print(f"{clients:4d} clients {server:12s} {median('RowsPerSecond'):9.1f} rows/s, p50 {median('P50'):.3f} ms,"
              f" p99 {median('P99'):.3f} ms; bench {median('Median'):.3f} ms; {ratio};"
              f" processor time a row: server {median('Server'):.3f} ms, clients {median('Load'):.3f} ms")
    for server, clients in jobs:
        if server != "graphrun":
            key, label = ("P50", "p50") if clients == 1 else ("RowsPerSecond", "rows per second")
            ratios = [r["graphrun", clients][key] / r[server, clients][key] for r in rounds]
            print(f"{clients:4d} clients: graphrun / {server} {quartiles(ratios)} by {label}")


if __name__ == "__main__":
    main()
