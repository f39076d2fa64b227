package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

type chromeDoc struct {
	DisplayTimeUnit string `json:"displayTimeUnit"`
	TraceEvents     []struct {
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

// TestTrace holds the trace to one track a worker, on which spans nest, with every step.
func TestTrace(t *testing.T) {
	files, _ := filepath.Glob(models + "/*.json")
	for _, file := range append(files, write(t, "dynamic.json", dynamic)) {
		for _, threads := range []int{1, 3} {
			out := filepath.Join(t.TempDir(), "trace.json")
			succeed(t, "bench", file, "--runs", "1", "--threads", fmt.Sprint(threads), "--trace", out)
			tracks, open, seen := map[int]string{}, map[int][]float64{}, map[string]int{}
			doc := readTrace(t, out)
			for _, e := range doc.TraceEvents {
				if e.Name == "thread_name" {
					tracks[e.Tid] = e.Args["name"].(string)
				}
				if e.Ph == "X" {
					seen[e.Cat]++
					if tracks[e.Tid] != fmt.Sprint("worker ", e.Tid) || e.Dur < 0 || e.Name == "" {
						t.Fatalf("%s: %+v", file, e)
					}
				}
			}
			if len(tracks) != threads || seen["run"] < 1 || seen["step"] < 1 || seen["chunk"] < seen["step"]/threads {
				t.Errorf("%s: tracks %v, seen %v", file, tracks, seen)
			}
			// Spans end in the order of their ends: each holds, or follows, those before it.
			for _, e := range doc.TraceEvents {
				if e.Ph != "X" {
					continue
				}
				s := open[e.Tid]
				for len(s) > 0 && s[len(s)-2] >= e.TS {
					s = s[:len(s)-2]
				}
				if len(s) > 0 && s[len(s)-1] > e.TS+1e-6 {
					t.Fatalf("%s: on track %d, %s at %v overlaps what ends at %v", file, e.Tid, e.Name, e.TS, s[len(s)-1])
				}
				open[e.Tid] = append(s, e.TS, e.TS+e.Dur)
			}
		}
	}
}

func TestTraceIsCheckedAndWhole(t *testing.T) {
	path := write(t, "g.json", small)
	for to, want := range map[string]string{
		"/nonexistent/t.json": "graphrun: --trace /nonexistent/t.json: there is no folder /nonexistent\n",
		"t.txt":               "graphrun: --trace t.txt: want a .json file\n",
	} {
		if r := call(t, "bench", path, "--trace", to); r.code != exitWrong || r.errors != want || r.out != "" {
			t.Errorf("exit %d, %q, %q", r.code, r.errors, r.out)
		}
	}
	out := write(t, "old.json", "old")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := callIn(t, ctx, "bench", path, "--trace", out)
	if text, err := os.ReadFile(out); r.code != 130 || err != nil || string(text) != "old" {
		t.Errorf("exit %d, %v, %q", r.code, err, text)
	}
}
