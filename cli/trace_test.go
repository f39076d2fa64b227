package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
)

type chromeDoc struct {
	TraceEvents []struct {
		Name, Cat, Ph string
		TS, Dur       float64
		Pid, Tid      int
		Args          map[string]any
	} `json:"traceEvents"`
}

func readTrace(t *testing.T, path string) chromeDoc {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return decode[chromeDoc](t, string(text))
}

// checkTold holds a trace to what it tells: of steps and chunks what they compute, of memory that it is taken and all
// given back, in order.
func checkTold(t *testing.T, file string, doc chromeDoc) {
	t.Helper()
	var most, last, at float64
	shapes := 0
	for _, e := range doc.TraceEvents {
		switch e.Cat {
		case "step", "chunk":
			if e.Args["op"] == "" || e.Args["op"] == nil || e.Args["step"] == nil {
				t.Fatalf("%s: %+v", file, e)
			}
			if e.Args["shape"] != nil && e.Args["bytes"] != nil && e.Args["dtype"] != nil {
				shapes++
			}
		case "run":
			if e.Args["workers"] == nil || e.Args["steps"] == nil {
				t.Fatalf("%s: %+v", file, e)
			}
		}
		if e.Ph != "C" {
			continue
		}
		arena, outputs := e.Args["arena"].(float64), e.Args["outputs"].(float64)
		if e.Name != "memory" || arena < 0 || outputs < 0 || e.TS < at {
			t.Fatalf("%s: %+v after %v", file, e, at)
		}
		last, at = arena+outputs, e.TS
		most = max(most, last)
	}
	if most == 0 || last != 0 || shapes == 0 {
		t.Errorf("%s: memory reaches %v and ends with %v; %d slices tell a shape", file, most, last, shapes)
	}
}

// TestTraceMemory holds the counter to the plan: in a chain worked by one, an intermediate value is there until the
// next one is, and there are two at a time.
func TestTraceMemory(t *testing.T) {
	path := write(t, "chain.json", `{"version": 1, "inputs": [{"name": "x", "dtype": "float64", "shape": [4, 4]}],
 "nodes": [{"name": "a", "op": "matmul", "inputs": ["x", "x"]}, {"name": "b", "op": "matmul", "inputs": ["a", "x"]},
           {"name": "c", "op": "matmul", "inputs": ["b", "x"]}], "outputs": ["c"]}`)
	out := filepath.Join(t.TempDir(), "trace.json")
	succeed(t, "bench", path, "--runs", "1", "--threads", "1", "--trace", out)
	var got []string
	ends := map[string]float64{}
	for _, e := range readTrace(t, out).TraceEvents {
		if e.Cat == "step" {
			ends[e.Name] = e.TS + e.Dur
		}
		if e.Ph == "C" {
			got = append(got, fmt.Sprint(e.Args["arena"], e.Args["outputs"]))
			if len(got) > 1 && got[len(got)-1] == "0 128" && e.TS+1e-6 < ends["c"] {
				t.Errorf("what c reads is given back at %v, c ends at %v", e.TS, ends["c"])
			}
		}
	}
	if want := "[128 0 256 0 128 0 128 128 0 128 0 0]"; fmt.Sprint(got) != want {
		t.Errorf("arena and outputs: %v, want %s", got, want)
	}
}

// TestTrace holds the trace to one track a worker, on which spans nest, with every step.
func TestTrace(t *testing.T) {
	files, _ := filepath.Glob(models + "/*.json")
	for _, file := range append(files, write(t, "dynamic.json", dynamic)) {
		for _, threads := range []int{1, 3} {
			out := filepath.Join(t.TempDir(), "trace.json")
			succeed(t, "bench", file, "--runs", "1", "--threads", fmt.Sprint(threads), "--trace", out)
			doc := readTrace(t, out)
			checkTold(t, file, doc)
			p := openInPerfetto(t, out)
			seen := map[string]int{}
			for _, s := range p.slices {
				seen[s.cat]++
				if p.threads[s.track] == "" || s.name == "" {
					t.Fatalf("%s: %+v", file, s)
				}
			}
			if seen["run"] < 1 || seen["step"] < 1 || seen["chunk"] < seen["step"]/threads {
				t.Errorf("%s: seen %v", file, seen)
			}
			if len(p.threads) != threads || p.threads[p.process] != "worker 0" || p.order[p.process] != 0 {
				t.Errorf("%s: threads %v in the order %v, the main one is %d", file, p.threads, p.order, p.process)
			}
			if len(p.counters["memory arena"]) == 0 || len(p.counters["memory outputs"]) == 0 {
				t.Errorf("%s: counters %v", file, p.counters)
			}
		}
	}
}

func TestTraceIsCheckedAndWhole(t *testing.T) {
	path := write(t, "g.json", small)
	for to, want := range map[string]string{
		"/nonexistent/t.json": "graphrun: --trace /nonexistent/t.json: the folder /nonexistent does not exist\n",
		"t.txt":               "graphrun: --trace t.txt: the file must have the extension .json\n",
	} {
		if r := call(t, "bench", path, "--trace", to); r.code != exit.CodeUsage || r.errors != want || r.out != "" {
			t.Errorf("exit %d, %q, %q", r.code, r.errors, r.out)
		}
	}
	out := write(t, "old.json", "old")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := callIn(t, ctx, extend(t), "bench", path, "--trace", out)
	if text, err := os.ReadFile(out); r.code != 130 || err != nil || string(text) != "old" {
		t.Errorf("exit %d, %v, %q", r.code, err, text)
	}
}
