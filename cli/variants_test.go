package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/compare"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/pricing"
)

// dearCopies writes a profile with prices at which copies cost more, and returns its path.
func dearCopies(t *testing.T) string {
	t.Helper()
	profile := pricing.DefaultProfile()
	for _, access := range []pricing.Access{pricing.Copied, pricing.Tiled} {
		curve := profile.Memory.CurveOf(access)
		for i := range *curve {
			(*curve)[i].PS *= 1000
		}
	}
	text, err := json.Marshal(profile)
	require.NoError(t, err)
	return write(t, "dear.json", string(text))
}

// TestVariants measures optimal beside optimal with pins, plan k of the cheapest, and the plan for other prices. All
// outputs name the variants, and costs and gaps are at the same prices.
func TestVariants(t *testing.T) {
	dir := t.TempDir()
	table, bench, page := filepath.Join(dir, "o.csv"), filepath.Join(dir, "o.txt"), filepath.Join(dir, "o.html")
	dear := dearCopies(t)
	args := onResidual("compare", "--runs", "6", "--threads", "1,2", "--variant", "pinned:pin=conv1=impl:nchw",
		"--variant", "third:k=3", "--variant", "both:pin=image=contiguous", "--variant", "both:k=2",
		"--variant", "dear:costs="+dear, "--variant", "rows:strategy=contiguous")
	text := succeed(t, append(args, "--json", "--csv", table, "--benchstat", bench, "--report", page)...)
	valid(t, "compare", text)
	doc := decode[compareDoc](t, text)
	require.Len(t, doc.Strategies, 12)
	best := decode[planJSON](t, succeed(t, onResidual("plan", "--k-best", "3", "--json")...))
	rows := map[string]compare.Row{}
	for _, row := range doc.Strategies[:6] {
		rows[row.Name] = row
	}
	assert.Equal(t, best.Best[2].CostNS, rows["third"].CostNS)
	assert.Equal(t, "optimal, plan 3 of the cheapest", rows["third"].Variant)
	assert.Equal(t, "optimal, pin image=contiguous, plan 2 of the cheapest", rows["both"].Variant)
	assert.Empty(t, rows["optimal"].Variant)
	pinned := decode[planJSON](t, succeed(t, onResidual("plan", "--pin", "conv1=impl:nchw", "--json")...))
	assert.Equal(t, pinned.CostNS, rows["pinned"].CostNS)
	rowMajor := decode[planJSON](t, succeed(t, onResidual("plan", "--strategy", "contiguous", "--json")...))
	assert.Equal(t, rowMajor.CostNS, rows["rows"].CostNS)
	for name, row := range rows {
		require.NotNil(t, row.Gap, name)
		assert.GreaterOrEqual(t, *row.Gap, 0., name)
		assert.NotNil(t, row.Regret, name)
		assert.False(t, row.OtherPrices, name)
	}
	require.Len(t, doc.Verdicts, 2)
	for file, want := range map[string]string{table: "optimal, plan 3 of the cheapest", bench: "/strategy=third ",
		page: "third: optimal, plan 3 of the cheapest"} {
		assert.Contains(t, string(read(t, file)), want)
	}
	assert.Contains(t, string(read(t, page)), "threads=2")
	out := succeed(t, args...)
	assert.Contains(t, strings.Join(strings.Fields(out), " "),
		"both: optimal, pin image=contiguous, plan 2 of the cheapest")
	assert.Contains(t, out, "regret")
}

// TestVariantsRefused: mistakes are errors that name the variant.
func TestVariantsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"third":                   "want NAME:SETTING=VALUE",
		"third:k":                 "want NAME:SETTING=VALUE",
		":k=2":                    "want NAME:SETTING=VALUE",
		"third:k=0":               "--variant third:k=0: k is 0: want a number from 1",
		"third:k=x":               "k is x: want a number from 1",
		"third:pins=a":            `unknown setting "pins": want one of pin, costs, prices, k, strategy; did you mean pin?`,
		"optimal:k=2":             `"optimal" is the name of a strategy`,
		"third:strategy=fast":     `unknown strategy "fast"`,
		"third:costs=none.json":   "--variant third: --costs: none.json",
		"third:prices=none.json":  "--variant third: --prices: ",
		"third:pin=conv9=impl:x":  `--variant third: --pin conv9=impl:x: there is no value or node "conv9"`,
		"third:pin=conv1":         "--variant third: --pin conv1: want NAME=FORMAT",
		"third:k=100000":          "--variant third: there are only ",
		"second:strategy=greedy":  "",
		"second:pin=conv1=impl:x": `conv2d has no implementation "x"`,
	} {
		r := call(t, onResidual("compare", "--runs", "1", "--variant", text)...)
		if want == "" {
			assert.Zero(t, r.code, r.errors)
			continue
		}
		assert.Equal(t, exit.CodeUsage, r.code, text)
		assert.Contains(t, r.errors, want, text)
	}
	for _, more := range [][]string{{"a:k=2", "a:k=3"}, {"a:costs=x", "a:costs=y"}, {"a:k=2", "a:strategy=greedy"}} {
		r := call(t, onResidual("compare", "--variant", more[0], "--variant", more[1])...)
		assert.Equal(t, exit.CodeUsage, r.code)
		assert.Contains(t, r.errors, "--variant a:")
	}
}

// TestRegretOfMeasured: the fastest plan has no regret, and the regret of another follows from the medians.
func TestRegretOfMeasured(t *testing.T) {
	doc := decode[compareDoc](t, succeed(t, onResidual("compare", "--runs", "12", "--json")...))
	least := *doc.Strategies[0].Median
	for _, row := range doc.Strategies {
		least = min(least, *row.Median)
	}
	fastest := 0
	for _, row := range doc.Strategies {
		require.NotNil(t, row.Regret)
		assert.InDelta(t, *row.Median/least-1, *row.Regret, 1e-9, row.Name)
		if *row.Regret == 0 {
			fastest++
			assert.False(t, row.RegretSignificant)
		}
	}
	assert.NotZero(t, fastest)
	var table strings.Builder
	table.WriteString(experiment.TableOf([]experiment.Measurement{doc.Strategies[0].Measurement}).String())
	assert.Contains(t, table.String(), "regret")
}

// TestStudyShowsNoise: the noise of a measured task is in all outputs of a study, and every plan has its regret.
func TestStudyShowsNoise(t *testing.T) {
	file := studied(t, `{"name": "usual", "threads": [1, 2]}`)
	page := filepath.Join(t.TempDir(), "out.html")
	succeed(t, "study", file, "--models", models)
	folder := strings.TrimSuffix(file, ".json") + ".results"
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	noisy := 0
	for _, f := range files {
		noisy += strings.Count(string(read(t, filepath.Join(folder, f.Name()))), `"noise"`)
	}
	text := succeed(t, "study", file, "--models", models, "--resume", "--json", "--report", page, "--csv", page+".csv")
	valid(t, "study", text)
	assert.Equal(t, noisy, strings.Count(text, `"noise"`))
	html := string(read(t, page))
	assert.Equal(t, min(noisy, 5), strings.Count(html, ": disturbed measurement: "))
	assert.Contains(t, html, "Regret against the fastest measured plan, %: usual, 1 thread")
	assert.Contains(t, html, "Regret against the fastest measured plan, %: usual, 2 threads")
	assert.Contains(t, html, "2 threads, worst %")
	assert.Contains(t, string(read(t, page+".csv")), "high_ns,measured_regret")
	assert.Equal(t, 18, strings.Count(text, `"measured_regret"`))
}
