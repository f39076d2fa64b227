package cli

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/bench"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/report"
)

type profiledBench struct {
	Runs   int
	Median float64 `json:"median_ns"`
	bench.ProfileDoc
}

func profiled(t *testing.T, file, flags string) (doc profiledBench) {
	t.Helper()
	text := succeed(t, append([]string{"bench", file, "--profile", "--json"}, strings.Fields(flags)...)...)
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestProfile holds the profile to the plan: every step is in it, once in a run, and what workers did adds up.
func TestProfile(t *testing.T) {
	files, _ := filepath.Glob(models + "/*.json")
	for _, file := range files {
		steps := map[string]bool{}
		var planned report.Plan
		if err := json.Unmarshal([]byte(succeed(t, "plan", file, "--json")), &planned); err != nil {
			t.Fatal(err)
		}
		for _, s := range planned.Steps {
			steps[s.Name] = true
		}
		for _, threads := range []string{"1", "3"} {
			doc := profiled(t, file, "--runs 9 --threads "+threads)
			if doc.Runs != 9 || doc.Profile.Runs != 3 || len(doc.ByStep) != len(steps) || doc.Profile.FasterHalfMean <= 0 {
				t.Errorf("%s: %+v, %d steps of %d", file, doc.Profile, len(doc.ByStep), len(steps))
			}
			var share, shareOfOps, busy, atSteps, calls float64
			for _, s := range doc.ByStep {
				if !steps[s.Name] || s.Calls != 1 || s.Busy <= 0 || s.Time <= 0 || s.Op == "" || len(s.Nodes) == 0 {
					t.Errorf("%s: %+v", file, s)
				}
				share, busy = share+s.Share, busy+s.Busy
			}
			for _, o := range doc.ByOp {
				shareOfOps, calls = shareOfOps+o.Share, calls+o.Calls
			}
			idle := 0.0
			for _, w := range doc.ByWorker {
				atSteps, idle = atSteps+w.Busy, idle+w.Idle
			}
			all := doc.Profile.FasterHalfMean * float64(len(doc.ByWorker))
			for what, pair := range map[string][2]float64{"shares": {share, 1}, "shares of ops": {shareOfOps, 1},
				"calls": {calls, float64(len(steps))}, "time of workers": {atSteps, busy}, "time": {atSteps + idle, all},
				"idle": {idle / all, doc.Profile.Idle}} {
				if math.Abs(pair[0]-pair[1]) > 1e-6*(1+pair[1]) {
					t.Errorf("%s, %s threads: %s %v, want %v", file, threads, what, pair[0], pair[1])
				}
			}
		}
	}
	text := succeed(t, "bench", files[0], "--runs", "1", "--threads", "2", "--profile")
	first := regexp.MustCompile(`^\S+ takes \d+\.\d% of the workers' time in steps; the slowest step is \S+ with \S+s, ` +
		`predicted \S+s on one core( \(doubtful: .*?\))? A run of strategy .* disturbed measurement: .*` +
		`a single run is profiled, whose noise is unknown`)
	if !first.MatchString(strings.Join(strings.Fields(text), " ")) {
		t.Errorf("no summary first in\n%s", text)
	}
	for _, want := range []string{"busy%", "profile of 1 run, made between", "By op", "By step", "Workers", "GB/s",
		"GFLOP/s"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestProfileOfALoop counts the steps of a body as often as it runs, and leaves their time out of the loop's.
func TestProfileOfALoop(t *testing.T) {
	doc := profiled(t, write(t, "g.json", manyThings), "--runs 1")
	seen := map[string]float64{}
	for _, s := range doc.ByStep {
		seen[s.Name] = s.Calls
	}
	if seen["w"] != 3 || seen["p"] != 1 || seen["c"] != 1 { // "a" is computed in the loop of "c", which bounds it
		t.Errorf("calls by step: %v", seen)
	}
	if doc.ByWorker[0].Busy > doc.Profile.FasterHalfMean {
		t.Errorf("worker 0 is at steps for %v of %v", doc.ByWorker[0].Busy, doc.Profile.FasterHalfMean)
	}
}

// TestFor measures for a time, and once at least.
func TestFor(t *testing.T) {
	path := write(t, "g.json", small)
	if doc := decode[benchDoc](t, succeed(t, "bench", path, "--for", "1ns", "--json")); doc.Runs != 1 {
		t.Errorf("%d runs in no time", doc.Runs)
	}
	start := time.Now()
	doc := decode[benchDoc](t, succeed(t, "bench", path, "--for", "50ms", "--json"))
	if took := time.Since(start); doc.Runs < 20 || took < 50*time.Millisecond {
		t.Errorf("%d runs in %v", doc.Runs, took)
	}
	for args, want := range map[string]string{
		"--for -1s":          "--for -1s: want more than 0",
		"--for 1s --runs 20": "--runs and --for exclude each other",
		"--for soon":         "--for soon: want a time such as 3s",
	} {
		if r := call(t, append([]string{"bench", path}, strings.Fields(args)...)...); r.code != exit.CodeUsage ||
			!strings.Contains(r.errors, want) {
			t.Errorf("%s: exit %d, %s", args, r.code, r.errors)
		}
	}
}

// TestBenchReport checks that the page has the charts, the data and the properties of the measurement.
func TestBenchReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.html")
	out := succeed(t, "bench", models+"/residual.json", "--dim", "N=2", "--runs", "6", "--report", file)
	assert.NotContains(t, out, "By op") // as without --report
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	page := string(b)
	for _, want := range []string{"<title>residual.json under optimal", "Time of a run", "Predicted against measured",
		"Roofline", "Memory over time", "Time by step", "sha256 ", "Cost profile", "Processor",
		"graphrun bench residual.json --dim N=2 --report out.html --runs 6", "arena_bytes"} {
		assert.Contains(t, page, want)
	}
	assert.NotContains(t, page, filepath.Dir(file), "no folder of this machine is published")
	wrong := call(t, "bench", models+"/residual.json", "--report", "out.txt")
	assert.Equal(t, exit.CodeUsage, wrong.code)
	assert.Contains(t, wrong.errors, "the file must have the extension .html")
}
