package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/tune"
	"github.com/graphrun/graphrun/pricing"
)

// TestTune measures a small graph. Every command reads the file that it writes, as a result and as prices.
func TestTune(t *testing.T) {
	graph, file := models+"/mlp.json", filepath.Join(t.TempDir(), "tuned.json")
	printed := succeedOrDisturbed(t, "tune", graph, "--budget", "200ms", "--threads", "1", "--tuned", file, "--json")
	valid(t, "tune", printed)
	doc := decode[struct {
		Version int `json:"version"`
		tune.Document
	}](t, printed)
	require.NotEmpty(t, doc.Prices)
	require.Equal(t, len(doc.Prices), doc.Regret.Prices)
	require.Equal(t, 1, doc.Threads)
	f, err := os.Open(file)
	require.NoError(t, err)
	result, err := pricing.ReadTuned(f)
	require.NoError(t, f.Close())
	require.NoError(t, err)
	require.Equal(t, doc.Summary, result.Summary)

	result.Plan = pricing.MeasuredPlan
	var text strings.Builder
	require.NoError(t, result.Write(&text))
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	require.NoError(t, validate(t, printedSchema(t, "schema", "tuned"), text.String()))
	for _, args := range [][]string{{"run"}, {"bench", "--runs", "1"}, {"plan"}} {
		succeedOrDisturbed(t, append(args, graph, "--tuned", file, "--threads", "1")...)
	}
	planned := decode[planJSON](t, succeed(t, "plan", graph, "--tuned", file, "--threads", "1", "--json"))
	require.Equal(t, len(result.Prices), planned.Profile.Prices)
	problem := filepath.Join(t.TempDir(), "problem.json")
	out := succeed(t, "plan", graph, "--prices", file, "--problem", problem)
	require.Contains(t, strings.Join(strings.Fields(out), " "), "from the best at any prices within the measured intervals")
	succeed(t, "plan", graph, "--prices", problem)
	out = succeedOrDisturbed(t, "tune", graph, "--budget", "1ms", "--threads", "1", "--tuned", file)
	require.Contains(t, out, "prices measured in")

	for want, args := range map[string][]string{
		"it was measured with threads=1, and the program has threads=2":   {"run", graph, "--tuned", file, "--threads", "2"},
		"it was measured for another graph or other options":              {"run", models + "/pointwise.json", "--tuned", file, "--threads", "1"},
		"the earlier result cannot be continued: it was measured for ano": {"tune", models + "/pointwise.json", "--tuned", file, "--threads", "1"},
		"--tuned excludes --prices":                                       {"plan", graph, "--tuned", file, "--prices", file},
		"no such file":                                                    {"run", graph, "--tuned", file + ".none"},
		"is not a result of tune":                                         {"run", graph, "--tuned", write(t, "t.json", `{"version": 1}`)},
		"--budget 0s: want more than 0s":                                  {"tune", graph, "--budget", "0s"},
		"--regret 2: want a percentage":                                   {"tune", graph, "--regret", "2"},
		"tune measures one combination of sizes":                          {"tune", models + "/residual.json", "--dim", "N=1,2"},
	} {
		r := call(t, args...)
		require.NotEqual(t, exit.CodeDone, r.code, args)
		require.Contains(t, r.errors, want, args)
	}
}

// succeedOrDisturbed is [succeed] for a measurement.
func succeedOrDisturbed(t *testing.T, args ...string) string {
	t.Helper()
	r := call(t, args...)
	require.Equal(t, exit.CodeDone, r.code, r.errors)
	return r.out
}

// TestTunedCache: run finds the result of tune in --cache.
func TestTunedCache(t *testing.T) {
	dir := t.TempDir()
	succeedOrDisturbed(t, "tune", models+"/mlp.json", "--budget", "50ms", "--cache", dir)
	succeed(t, "run", models+"/mlp.json", "--cache", dir)
}

// TestStudyTunes: a condition with a budget of tune adds two plans to each result, and a table of them.
func TestStudyTunes(t *testing.T) {
	file := write(t, "study.json", `{"version": 1, "name": "tuned", "strategies": ["propagate", "optimal"], "runs": 12,
 "models": [{"file": "mlp.json"}, {"file": "attention.json"}],
 "conditions": [{"name": "here", "tune": "50ms", "threads": [1]}, {"name": "usual", "threads": [1]}]}`)
	results := filepath.Join(t.TempDir(), "results")
	out := succeedOrDisturbed(t, "study", file, "--models", models, "--results", results, "--json")
	valid(t, "study", out)
	for _, resumed := range []string{out, succeed(t, "study", file, "--models", models, "--results", results, "--resume", "--json")} {
		doc := decodeSome[struct {
			Tuned []struct {
				Graph, Condition, Fastest, Summary string
				Ratio, Low, High                   float64
			}
			Results []struct{ Plans []struct{ Strategy string } }
		}](t, resumed)
		require.Len(t, doc.Tuned, 2)
		for _, row := range doc.Tuned {
			require.Equal(t, "here", row.Condition)
			require.NotEmpty(t, row.Summary)
			require.LessOrEqual(t, row.Low, row.Ratio)
			require.LessOrEqual(t, row.Ratio, row.High)
		}
		counts := map[int]int{}
		for _, r := range doc.Results {
			counts[len(r.Plans)]++
		}
		require.Equal(t, map[int]int{4: 2, 2: 2}, counts)
	}
	page := filepath.Join(t.TempDir(), "study.html")
	text := succeed(t, "study", file, "--models", models, "--results", results, "--resume", "--report", page)
	require.Contains(t, text, "of the time of the fastest (geometric mean; at most")
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "regret at most")
	for want, condition := range map[string]string{`tune: \"soon\": want a time`: `"tune": "soon", "threads": [1]`,
		"tune: the condition measures nothing": `"tune": "1s"`} {
		r := call(t, "study", write(t, "bad.json", `{"version": 1, "name": "bad", "models": [{"file": "mlp.json"}],
 "conditions": [{"name": "here", `+condition+`}]}`), "--models", models)
		require.Equal(t, exit.CodeUsage, r.code)
		require.Contains(t, r.errors, strings.ReplaceAll(want, `\"`, `"`))
	}
}

// decodeSome decodes some members of a document.
func decodeSome[T any](t *testing.T, text string) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}
