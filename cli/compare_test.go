package cli

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/passes/layout"
)

// sized is a graph with a symbol.
const sized = `{"version": 1, "symbols": {"N": {"min": 1, "max": 64}},
 "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 4, 6, 6]}],
 "nodes": [{"name": "c", "op": "clone", "inputs": ["x"], "attrs": {"memory_format": "channels_last"}},
           {"name": "y", "op": "relu", "inputs": ["c"]}],
 "outputs": ["y"]}`

// byDefault is the number of strategies that compare measures by default.
var byDefault = len(graphrun.Strategies()) - len(layout.Published())

// TestStrategyGroups checks the groups that --strategies accepts, and that no strategy has the name of a group.
func TestStrategyGroups(t *testing.T) {
	var published, all []string
	for _, s := range graphrun.Strategies() {
		all = append(all, s.Name())
	}
	for _, s := range layout.Published() {
		published = append(published, s.Name())
	}
	path := write(t, "g.json", small)
	for group, want := range map[string][]string{"published": published, "all": all,
		"optimal,published": append([]string{"optimal"}, published...)} {
		doc := decode[compareDoc](t, succeed(t, "compare", path, "--strategies", group, "--runs", "1", "--json"))
		var got []string
		for _, r := range doc.Strategies {
			got = append(got, r.Name)
		}
		if !doc.Equal || !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", group, got, want)
		}
	}
	if r := call(t, "compare", path, "--strategies", "all,pbqp"); r.code != 2 || !strings.Contains(r.errors, "twice") {
		t.Errorf("exit %d, stderr %s", r.code, r.errors)
	}
	out := call(t, "__complete", "compare", "--strategies", "optimal,p").out
	if !strings.Contains(out, "optimal,published\n") || !strings.Contains(out, "optimal,pbqp\n") {
		t.Errorf("completions: %s", out)
	}
}

// TestSweep measures every combination of files, sizes and threads, and writes all of it.
func TestSweep(t *testing.T) {
	a, b, dir := write(t, "a.json", sized), write(t, "b.json", sized), t.TempDir()
	table, bench, page := filepath.Join(dir, "o.csv"), filepath.Join(dir, "o.txt"), filepath.Join(dir, "o.html")
	text := succeed(t, "compare", a, b, "--dim", "N=1,3", "--threads", "1,2", "--strategies", "propagate,greedy",
		"--runs", "6", "--json", "--csv", table, "--benchstat", bench, "--report", page)
	valid(t, "compare", text)
	doc := decode[compareDoc](t, text)
	var places []string
	for i, r := range doc.Strategies {
		places = append(places, r.Label()+" "+r.Name)
		if len(r.Samples) != 6 || r.Runs != 6 || r.Low == nil || (r.Base == "") != (i%2 == 0) || (r.P == nil) != (i%2 == 0) {
			t.Errorf("%+v", r)
		}
	}
	var want []string
	for _, file := range []string{"a.json", "b.json"} {
		for _, n := range []int{1, 3} {
			for _, threads := range []int{1, 2} {
				for _, s := range []string{"propagate", "greedy"} {
					want = append(want, fmt.Sprintf("%s/N=%d/threads=%d %s", file, n, threads, s))
				}
			}
		}
	}
	if !doc.Equal || !slices.Equal(places, want) {
		t.Errorf("%v, want %v", places, want)
	}
	for i, v := range doc.Verdicts {
		if v.Label() != doc.Strategies[2*i].Label() || len(v.Pairs) != 1 || v.Text == "" {
			t.Errorf("verdict %d: %+v", i, v)
		}
	}
	if doc.Verdict != nil || len(doc.Verdicts) != 8 {
		t.Errorf("%d verdicts, one %v", len(doc.Verdicts), doc.Verdict)
	}
	checkCSV(t, string(read(t, table)), doc)
	checkBenchmarks(t, string(read(t, bench)), doc)
	chart := regexp.MustCompile(`(?s)<h2>Estimated against measured<.*?</svg>`).FindString(string(read(t, page)))
	shapes := map[string]string{} // by number of threads
	for _, point := range regexp.MustCompile(`threads=(\d), [^<]*</title><path class="shape" d="M\S+ [\d.]+(m[^"]*)"`).
		FindAllStringSubmatch(chart, -1) {
		if known, ok := shapes[point[1]]; ok && known != point[2] {
			t.Errorf("two shapes for threads=%s", point[1])
		}
		shapes[point[1]] = point[2]
	}
	if len(shapes) != 2 || shapes["1"] == shapes["2"] || !strings.Contains(chart, ">2 threads</text>") {
		t.Errorf("numbers of threads are drawn alike: %v", shapes)
	}
	if html := string(read(t, page)); strings.Count(html, "<h2>Measured: ") != 8 || strings.Count(html, "<tr") != 17 ||
		!strings.Contains(html, "<h2>Estimated: b.json/N=3<") || !strings.Contains(html, "lower bound") ||
		!strings.Contains(html, "sha256 ") || strings.Contains(html, dir) ||
		!strings.Contains(html, "All strategies give equal values") {
		t.Errorf("the page says\n%s", html)
	}
}

// checkCSV wants a row for each run, with the figures of the document.
func checkCSV(t *testing.T, text string, doc compareDoc) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(rows[0], " "); got != "file dim_N threads strategy run ns cost_ns lower_bound_ns gap copies "+
		"copied_bytes moved_bytes peak_bytes peak_with_weights_bytes plan_ms measured_as measured_regret" {
		t.Error(got)
	}
	if len(rows) != 1+6*len(doc.Strategies) {
		t.Fatalf("%d rows", len(rows))
	}
	for i, row := range rows[1:] {
		r := doc.Strategies[i/6]
		ns, err := strconv.ParseFloat(row[5], 64)
		if err != nil || ns != r.Samples[i%6] || row[0] != r.File || row[1] != strconv.Itoa(r.Dims["N"]) ||
			row[2] != strconv.Itoa(r.Threads) || row[3] != r.Name || row[4] != strconv.Itoa(i%6+1) ||
			row[11] != strconv.Itoa(r.MovedBytes) || row[13] != strconv.Itoa(r.PeakWithWeights) || row[15] != r.Name {
			t.Errorf("row %d is %v", i+1, row)
		}
	}
}

// checkBenchmarks holds lines to the format of Go's benchmarks: a name without blanks, the number of iterations, and
// pairs of a number and its unit.
func checkBenchmarks(t *testing.T, text string, doc compareDoc) {
	t.Helper()
	head := "goos: " + runtime.GOOS + "\ngoarch: " + runtime.GOARCH + "\npkg: github.com/graphrun/graphrun\n"
	if !strings.HasPrefix(text, head) {
		t.Errorf("it begins with\n%.200s", text)
	}
	line := regexp.MustCompile(`(?m)^BenchmarkRun/file=\S+/N=\d+/threads=\d+/strategy=(\S+) 1 (\d+) ns/op$`)
	found := line.FindAllStringSubmatch(text, -1)
	if len(found) != 6*len(doc.Strategies) || strings.Count(text, "\n") != 3+len(found) {
		t.Fatalf("%d lines in\n%s", len(found), text)
	}
	for i, m := range found {
		r := doc.Strategies[i/6]
		if m[1] != r.Name || m[2] != fmt.Sprintf("%.0f", r.Samples[i%6]) {
			t.Errorf("line %d is %s", i, m[0])
		}
	}
}

// The table always has the columns of sizes and threads, and its heads have the units.
func TestCompareTable(t *testing.T) {
	path := write(t, "g.json", sized)
	out := succeed(t, "compare", path, "--dim", "N=1,3", "--runs", "2", "--threads", "1")
	answer, rest, _ := strings.Cut(out, "\n\n")
	head, rest, _ := strings.Cut(rest, "\n")
	if !strings.HasPrefix(answer, "g.json/N=1/threads=1: 2 runs are too few") ||
		!regexp.MustCompile(`^N  threads  strategy +cost/.?s .*median/.?s +± +vs propagate +p +regret +copies +copied/(B|KiB) +`+
			`moved/KiB +peak/KiB +\+weights/KiB +plan/.?s$`).MatchString(head) || strings.Count(rest, "\n3  ") != byDefault ||
		!strings.Contains(rest, "2 runs each, turns of 2 runs after an unmeasured one, in rounds of random") ||
		strings.Contains(out, "∞") || !strings.Contains(strings.ReplaceAll(answer, "\n", " "), "2 runs are too few to "+
		"find any difference between these plans: at least 9 runs of each are needed; lowest medians: ") ||
		strings.Contains(rest, "too few") { // the verdict is in the answer already
		t.Errorf("got\n%s", out)
	}
	for turn, want := range map[string]string{"9": "turns of 2 runs after an unmeasured one, in",
		"2": "turns of 1 run after",
		"1": "2 runs each, in rounds"} {
		out = succeed(t, "compare", path, "--dim", "N=3", "--runs", "2", "--turn", turn, "--threads", "1")
		if !strings.Contains(out, "2 runs each, ") || !strings.Contains(out, want) {
			t.Errorf("--turn %s: no %q in\n%s", turn, want, out)
		}
	}
	out = succeed(t, "compare", path, "--dim", "N=3", "--runs", "1", "--markdown", "--threads", "1,2")
	if !strings.Contains(out, "\n\n| N | threads | strategy | cost/") ||
		!strings.Contains(out, "\n| ---: | ---: | --- | ---: |") ||
		strings.Count(out, "\n| 3 | 2 | ") != byDefault ||
		!strings.Contains(out, "all strategies give equal values") {
		t.Errorf("got\n%s", out)
	}
}

// TestVerdict wants the verdict in the text, in JSON and in the report. In the graph greedy and push have one plan, and
// the other strategies another.
func TestVerdict(t *testing.T) {
	path, page := write(t, "g.json", sized), filepath.Join(t.TempDir(), "out.html")
	const strategies = "propagate,contiguous,channels_last,greedy,favourite,push,optimal"
	r := call(t, "compare", path, "--dim", "N=3", "--strategies", strategies, "--runs", "3", "--json", "--report", page)
	valid(t, "compare", r.out)
	doc := decode[compareDoc](t, r.out)
	if noise := doc.Verdict.Noise; (len(r.disturbed) == 1) != (noise != "") ||
		!strings.HasSuffix(strings.Join(r.disturbed, ""), noise+strings.Repeat("\n", len(r.disturbed))) {
		t.Errorf("noise %q, notes %q", noise, r.disturbed)
	}
	if n := doc.Verdict.FewestRuns; n == nil || *n != 9 {
		t.Errorf("fewest runs %v", n)
	}
	if len(doc.Verdicts) != 1 || doc.Verdict == nil || doc.Verdict.Text != doc.Verdicts[0].Text {
		t.Fatalf("%+v", doc)
	}
	v := doc.Verdict
	if !slices.Equal(slices.Concat(v.SamePlan...), []string{"propagate", "contiguous", "channels_last", "favourite",
		"optimal", "greedy", "push"}) || len(v.SamePlan) != 2 {
		t.Errorf("equal plans %v", v.SamePlan)
	}
	if len(v.Pairs) != 1 || v.Pairs[0].A != "propagate" || v.Pairs[0].B != "greedy" || v.Pairs[0].PHolm != v.Pairs[0].P {
		t.Errorf("pairs %+v", v.Pairs)
	}
	if html := string(read(t, page)); !strings.Contains(html, `<p class="summary">`+v.Text+".</p>") || v.Text == "" {
		t.Errorf("no %q in\n%s", v.Text, html)
	}
	for _, r := range doc.Strategies {
		same := map[string]string{"contiguous": "propagate", "channels_last": "propagate", "favourite": "propagate",
			"optimal": "propagate", "push": "greedy"}[r.Name]
		base := doc.Strategies[0].Samples
		if r.MeasuredAs != same || same == "propagate" && (r.P != nil || !slices.Equal(r.Samples, base)) {
			t.Errorf("%+v", r)
		}
	}
	out := succeed(t, "compare", path, "--dim", "N=3", "--strategies", strategies, "--threads", "1,2", "--runs", "9")
	for _, want := range []string{"3        2  push (= greedy)", "=: equal plans, measured once\n",
		"g.json/N=3/threads=1: ", "\ng.json/N=3/threads=2: ", " fastest"} {
		if !strings.Contains(strings.ReplaceAll(out, "\nonce", " once"), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// A narrow confidence interval needs more runs than --runs permits, a wide one no more than the least number.
func TestUntil(t *testing.T) {
	path := write(t, "g.json", sized)
	args := []string{"compare", path, "--strategies", "propagate", "--json"}
	doc := decode[compareDoc](t, succeed(t, append(args, "--until", "0.0001%", "--runs", "30")...))
	if doc.Strategies[0].Runs != 30 || !slices.Equal(doc.Verdict.Unreached, []string{"propagate"}) ||
		!strings.HasSuffix(doc.Verdict.Text, "; the confidence interval of propagate is wider than demanded") {
		t.Errorf("%+v", doc)
	}
	doc = decode[compareDoc](t, succeed(t, append(args, "--until", "99.9%")...))
	if r := doc.Strategies[0]; r.Runs < 20 || doc.Verdict.Unreached != nil {
		t.Errorf("%+v", doc)
	}
	out := succeed(t, "compare", path, "--until", "0.0001%", "--runs", "25")
	if !strings.Contains(out, "\n25 runs each, ") {
		t.Errorf("got\n%s", out)
	}
}

// Pins are for all strategies, and what a plan does with them is in its row.
func TestComparePinned(t *testing.T) {
	path := write(t, "g.json", small)
	plain := decode[compareDoc](t, succeed(t, "compare", path, "--runs", "1", "--json"))
	pinned := decode[compareDoc](t, succeed(t, "compare", path, "--runs", "1", "--json", "--pin", "y=contiguous"))
	for i, r := range pinned.Strategies {
		if r.CostNS == plain.Strategies[i].CostNS && r.MovedBytes == plain.Strategies[i].MovedBytes {
			t.Errorf("%s does not heed the pin", r.Name)
		}
	}
}

func TestCompareRefuses(t *testing.T) {
	path := write(t, "g.json", sized)
	for args, want := range map[string]string{
		"":                                 "compare wants one or more graph files, got none",
		path + " --dim N=1,1":              "--dim N=1,1: 1 is listed twice",
		path + " --dim N=1,x":              "--dim N=x: want a symbol and its size, as in N=8",
		path + " --dim N=1 --dim N=2":      "--dim gives N twice: 1 and 2",
		path + " --dim M=1,2":              "has no symbolic dimension \"M\"",
		path + " --threads 1,1":            "--threads names 1 twice",
		path + " --threads=-1":             "--threads -1",
		path + " --threads x":              "--threads",
		path + " --csv out.txt":            "--csv out.txt: the file must have the extension .csv",
		path + " --csv /nonexistent/o.csv": "the folder /nonexistent does not exist",
		path + " --turn 0":                 "--turn 0: want at least 1",
		path + " --json --markdown":        "--json and --markdown exclude each other",
		path + " --strategies wishful":     `unknown strategy "wishful"`,
		path + " --pin q=contiguous":       "--pin q=contiguous",
		path + " none.json":                "there is no such file",
		path + " --until 1":                "--until 1: want a percentage, as in 1%",
		path + " --until x%":               "--until x%: want a percentage, as in 1%",
		path + " --until 0%":               "--until 0%: want more than 0% and less than 100%",
		path + " --until=-1%":              "--until -1%: want more than 0% and less than 100%",
		path + " --until NaN%":             "--until NaN%: want more than 0% and less than 100%",
		path + " --until 100%":             "--until 100%: want more than 0% and less than 100%",
	} {
		r := call(t, append([]string{"compare", "--runs", "1"}, strings.Fields(args)...)...)
		if r.code != exit.CodeUsage || !strings.Contains(r.errors, want) || r.out != "" {
			t.Errorf("%s: exit %d, %q, stdout %q", args, r.code, r.errors, r.out)
		}
	}
}

// What was measured before something fails is printed and written, and the exit code is that of the failure.
func TestCompareKeepsWhatItMeasured(t *testing.T) {
	good, bad := write(t, "good.json", small), write(t, "bad.json", `{"version": 1}`)
	csv := filepath.Join(t.TempDir(), "times.csv")
	r := call(t, "compare", good, bad, "--runs", "2", "--strategies", "propagate", "--csv", csv, "--json")
	if r.code != exit.CodeUsage || !strings.Contains(r.errors, bad+":1:") {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
	doc := decode[compareDoc](t, r.out)
	if len(doc.Strategies) != 1 || !doc.Interrupted || len(doc.Strategies[0].Samples) != 2 {
		t.Errorf("%+v", doc)
	}
	if text, err := os.ReadFile(csv); err != nil || strings.Count(string(text), "\n") != 3 {
		t.Errorf("%s, %v", text, err)
	}
	r = call(t, "compare", good, bad, "--runs", "2", "--strategies", "propagate")
	if r.code != exit.CodeUsage || !strings.Contains(r.out, "2 runs each, incomplete, ") {
		t.Errorf("exit %d, %s", r.code, r.out)
	}
}

// Notes are printed once for each file.
func TestSweepTells(t *testing.T) {
	a := write(t, "a.json", sized)
	r := call(t, "compare", a, a, "--threads", "1,2", "--runs", "1", "--json")
	if r.code != exit.CodeDone || strings.Count(r.errors, "is assumed") != 1 || strings.Count(r.errors, "generated") != 1 {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
	if doc := decode[compareDoc](t, r.out); doc.Assumed["N"] != 2 || doc.Strategies[0].Dims["N"] != 2 {
		t.Errorf("%+v", doc)
	}
}
