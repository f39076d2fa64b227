#!/usr/bin/env python3
"""Runs graphrun serve under the load of many clients, kills it, and changes its model's file; checks every response.

    go build -o graphrun ./cmd/graphrun && go build -o serveload ./scripts/serveload
    scripts/serve_soak.py ./graphrun ./serveload MODEL.onnx --dims 1,128,256 --for 300

Phases, each under load: undisturbed; killed with SIGKILL and started again; the model's file overwritten in place by
random bytes, truncated to half, and restored, while the server looks for changes. Prints a line of JSON for each phase:
the report of serveload, and the resident memory of the server in MiB at the start, at most and at the end. It fails if
a response differs by a bit, if a request of a phase without a kill fails, if the server ends, or if memory grows by
more than a half after the first fifth of the first phase.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path


class Server:
    """A running server."""

    def __init__(self, graphrun, model, port, options):
        self.command = [graphrun, "serve", str(model), "--listen", f"127.0.0.1:{port}", "--reload", "200ms", *options]
        self.url = f"http://127.0.0.1:{port}"
        self.log = open(model.parent / "log", "ab")
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stderr=self.log)
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(self.url + "/v2/health/ready", timeout=1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.kill()
                    raise RuntimeError(f"the server does not start: {self.command}")
                time.sleep(0.05)

    def memory(self):
        """Resident memory in MiB; 0 if the server does not run."""
        try:
            for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) >> 10
        except OSError:
            pass
        return 0

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def load(server, a, name, seconds, disturb=None):
    """Runs clients for some time, and disturb in a thread. Returns the clients' report and samples of memory."""
    p = subprocess.Popen([a.serveload, "-url", f"{server.url}/v2/models/model", "-clients", str(a.clients), "-for",
                          f"{seconds}s", "-dims", a.dims], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = p.stderr.readline().strip()
    if line != "measuring":
        sys.exit(f"{name}: serveload: {line}")
    failures = []

    def run_disturb():
        try:
            disturb()
        except Exception as e:  # sys.exit and exceptions in a thread do not end the process
            failures.append(e)

    other = threading.Thread(target=run_disturb if disturb else None)
    other.start()
    samples = []
    while p.poll() is None:
        samples.append(server.memory())
        time.sleep(0.2)
    other.join()
    if failures:
        sys.exit(f"{name}: {failures[0]}")
    if p.returncode:
        sys.exit(f"{name}: serveload failed")
    report = json.loads(p.stdout.read())
    samples = [s for s in samples if s]
    if not samples:
        sys.exit(f"{name}: there is no sample of the server's memory")
    print(json.dumps({"Phase": name, **report, "MiB": [samples[0], max(samples), samples[-1]]}), flush=True)
    if report["Wrong"] or not report["Requests"]:
        sys.exit(f"{name}: {report['Wrong']} responses of {report['Requests']} are wrong")
    if server.process.poll() is not None:
        sys.exit(f"{name}: the server has ended with {server.process.returncode}")
    return report, samples


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("graphrun")
    ap.add_argument("serveload")
    ap.add_argument("model", type=Path)
    ap.add_argument("--dims", required=True, help="the shape of the model's only input")
    ap.add_argument("--clients", type=int, default=64)
    ap.add_argument("--for", type=float, default=300, dest="seconds", help="seconds of the first phase")
    ap.add_argument("--port", type=int, default=8017)
    ap.add_argument("options", nargs="*", help="options of graphrun serve, after --")
    a = ap.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        shutil.copy(a.model, model)
        try:
            server = Server(a.graphrun, model, a.port, a.options)
        except RuntimeError as e:
            sys.exit(str(e))
        try:
            run(server, a, model)
        finally:
            server.kill()


def run(server, a, model):
    short = max(a.seconds / 10, 10)

    def restart():
        time.sleep(short / 3)
        server.kill()
        time.sleep(0.5)
        server.start()

    def damage():
        whole = model.read_bytes()
        for content in (os.urandom(len(whole)), whole[:len(whole) // 2]):
            time.sleep(short / 4)
            with open(model, "r+b") as f:  # in place, as a copy does
                f.write(content)
                f.truncate()
        time.sleep(short / 4)
        model.write_bytes(whole)

    report, samples = load(server, a, "undisturbed", a.seconds)
    if report["Errors"]:
        sys.exit(f"{report['Errors']} requests failed: {report['FirstError']}")
    early, late = max(samples[:len(samples) // 5 + 1]), max(samples[-(len(samples) // 5) - 1:])
    if late > early * 1.5:
        sys.exit(f"memory grew from {early} to {late} MiB")
    load(server, a, "killed", short, restart)
    report, _ = load(server, a, "damaged model", short, damage)
    if report["Errors"]:
        sys.exit(f"{report['Errors']} requests failed: {report['FirstError']}")


if __name__ == "__main__":
    main()
