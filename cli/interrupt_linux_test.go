package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a process may take to do what it should do at once: machines that
// run tests are busy. Nothing waits for a moment that a busy machine may miss.
const patience = time.Minute

// worked waits until a process has used so much time of processors. However busy the machine
// is, it has come as far then as it comes on an idle one in that time.
func worked(t *testing.T, p *exec.Cmd, want time.Duration) {
	t.Helper()
	const tick = time.Second / 100 // of the kernel's figures
	for start := time.Now(); time.Since(start) < patience; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		// The name, in brackets, may hold blanks; state is the first field behind it.
		field := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		user, _ := strconv.Atoi(field[11])
		system, _ := strconv.Atoi(field[12])
		if time.Duration(user+system)*tick >= want || field[0] == "Z" {
			return
		}
	}
	t.Fatalf("the process has not worked for %v", want)
}

// started is the CPU time after which a process has begun the run of a small graph, several times what it needs.
const started = time.Second / 3

// endless is a graph whose run does not end in anybody's lifetime.
const endless = `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
 "constants": [{"name": "n", "dtype": "int64", "shape": [], "data": 1000000000000}],
 "nodes": [{"name": "y", "op": "loop", "inputs": ["n", null, "x"], "attrs": {"carried": 1, "body": {"version": 1,
   "inputs": [{"name": "i", "dtype": "int64", "shape": []}, {"name": "c", "dtype": "bool", "shape": []},
              {"name": "v", "dtype": "float32", "shape": [2]}],
   "nodes": [{"name": "w", "op": "mul", "inputs": ["v", 0.5]}], "outputs": ["c", "w"]}}}],
 "outputs": ["y"]}`

// interrupted starts the command, sends it SIGINT when it is ready, and returns what it left.
func interrupted(t *testing.T, ready func(p *exec.Cmd), args ...string) result {
	t.Helper()
	p := process(t, args...)
	var out, errs bytes.Buffer
	p.Stdout, p.Stderr = &out, &errs
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	ready(p)
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatalf("it ended by itself: %s%s", out.String(), errs.String())
	}
	stuck := time.AfterFunc(patience, func() { p.Process.Kill() })
	_ = p.Wait()
	if !stuck.Stop() {
		t.Fatalf("graphrun %s did not stop", strings.Join(args, " "))
	}
	return resultOf(p.ProcessState.ExitCode(), out.String(), errs.String())
}

// measuring interrupts a command after a second of work, or later where that was before its
// first measured runs.
func measuring(t *testing.T, done func(result) bool, args ...string) result {
	t.Helper()
	for work := started; ; work *= 3 {
		r := interrupted(t, func(p *exec.Cmd) { worked(t, p, work) }, args...)
		if done(r) || work > patience/4 {
			return r
		}
	}
}

// TestInterruptedBench holds bench and compare to delivering what they have measured.
func TestInterruptedBench(t *testing.T) {
	t.Parallel()
	file := write(t, "g.json", small)
	some := func(r result) bool {
		return !strings.Contains(r.out, `"median_ns": null`) && !strings.Contains(r.out, "after 0 of")
	}
	r := measuring(t, some, "bench", file, "--runs", "100000000", "--json")
	doc := decode[benchDoc](t, r.out)
	valid(t, "bench", r.out)
	if r.code != 130 || !doc.Interrupted || doc.Runs < 1 || doc.Runs != len(doc.Samples) || *doc.Median <= 0 {
		t.Errorf("exit %d, %d runs, %d samples", r.code, doc.Runs, len(doc.Samples))
	}
	if r.complaints() != "graphrun: interrupted\n" {
		t.Errorf("stderr %q", r.errors)
	}
	trace := filepath.Join(t.TempDir(), "trace.json")
	r = measuring(t, some, "bench", file, "--runs", "100000000", "--trace", trace)
	if _, err := os.Stat(trace); err == nil {
		t.Error("there is a trace of a measurement that was cut short")
	}
	if r.code != 130 || !strings.Contains(r.out, "optimal") || !strings.Contains(r.out, "of 100000000 runs\n") {
		t.Errorf("exit %d, stdout\n%s", r.code, r.out)
	}
	page := filepath.Join(t.TempDir(), "out.html")
	r = measuring(t, some, "compare", file, "--runs", "100000000", "--json", "--report", page)
	all := decode[compareDoc](t, r.out)
	valid(t, "compare", r.out)
	if n := len(all.Strategies); r.code != 130 || !all.Interrupted || !all.Equal || n != byDefault {
		t.Fatalf("exit %d, interrupted: %t, equal: %t, %d strategies", r.code, all.Interrupted, all.Equal, n)
	}
	for _, s := range all.Strategies {
		if s.Runs < 1 || s.Runs != len(s.Samples) {
			t.Errorf("%s: %d runs, %d samples", s.Name, s.Runs, len(s.Samples))
		}
	}
	if text := string(read(t, page)); !strings.Contains(text, "Warning: the measurement was interrupted") {
		t.Errorf("the report says\n%s", text)
	}
}

// TestInterruptedBefore interrupts a measurement before there is any, and one whose first
// run has not ended.
func TestInterruptedBefore(t *testing.T) {
	t.Parallel()
	file, soon := write(t, "g.json", endless), func(p *exec.Cmd) { worked(t, p, started) }
	r := interrupted(t, soon, "bench", file, "--json")
	valid(t, "bench", r.out)
	if doc := decode[benchDoc](t, r.out); r.code != 130 || !doc.Interrupted || doc.Runs != 0 || len(doc.Samples) != 0 {
		t.Errorf("exit %d, %+v", r.code, doc)
	}
	r = interrupted(t, soon, "bench", file)
	if r.code != 130 || r.out != "interrupted after 0 of 20 runs\n" {
		t.Errorf("exit %d, stdout %q", r.code, r.out)
	}
}

// TestInterruptedAnywhere interrupts commands while they load, since nobody writes into the
// pipe that they read, and while they run.
func TestInterruptedAnywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "g.json")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"infer", fifo}, {"infer", "--json", fifo}, {"plan", fifo}, {"run", fifo}, {"bench", fifo}, {"compare", fifo},
		{"view", fifo, "-o", filepath.Join(dir, "x.dot")}, {"convert", fifo, filepath.Join(dir, "x.json")},
		{"run", write(t, "endless.json", endless), "--outputs", filepath.Join(dir, "x.npz")},
	} {
		var end *os.File
		ready := func(*exec.Cmd) { end = reading(t, fifo) }
		if args[0] == "run" && args[1] != fifo {
			ready = func(p *exec.Cmd) { worked(t, p, started) }
		}
		r := interrupted(t, ready, args...)
		end.Close()
		if r.code != 130 || r.out != "" || r.complaints() != "graphrun: interrupted\n" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", args[0], r.code, r.out, r.errors)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}

// reading waits until somebody reads a pipe, and returns its other end.
func reading(t *testing.T, fifo string) *os.File {
	t.Helper()
	for start := time.Now(); time.Since(start) < patience; time.Sleep(10 * time.Millisecond) {
		if f, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			return f
		}
	}
	t.Fatal("nobody reads the pipe")
	return nil
}

// TestTerminated is for those who ask in the other way.
func TestTerminated(t *testing.T) {
	t.Parallel()
	p := process(t, "run", write(t, "g.json", endless))
	var errs bytes.Buffer
	p.Stderr = &errs
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	worked(t, p, started)
	_ = p.Process.Signal(syscall.SIGTERM)
	_ = p.Wait()
	if code := p.ProcessState.ExitCode(); code != 143 || !strings.HasSuffix(errs.String(), "graphrun: terminated\n") {
		t.Errorf("exit %d, stderr %q", code, errs.String())
	}
}

// TestInterruptedTwice holds a process up that has been interrupted once, by not reading
// what it prints. The second time kills it.
func TestInterruptedTwice(t *testing.T) {
	t.Parallel()
	// A run takes long enough that statistics of all runs take little time.
	p := process(t, "bench", write(t, "g.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float32",
		"shape": [300000]}], "nodes": [{"name": "y", "op": "relu", "inputs": ["x"]}], "outputs": ["y"]}`),
		"--runs", "100000000", "--json")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const pipeSize = 1031 // F_SETPIPE_SZ
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, w.Fd(), pipeSize, 4096); errno != 0 {
		t.Fatal(errno)
	}
	p.Stdout = w
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	worked(t, p, time.Second) // enough samples to fill the pipe
	_ = p.Process.Signal(syscall.SIGINT)
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		t.Fatalf("nothing is printed: %v", err)
	}
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatalf("it has ended: %v", err)
	}
	over := time.AfterFunc(patience, func() { p.Process.Kill() })
	_ = p.Wait()
	status := p.ProcessState.Sys().(syscall.WaitStatus)
	if !over.Stop() || !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("it ended with %v", p.ProcessState)
	}
}
