package cli

import (
	"strings"
	"testing"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/plan"
)

type strategiesDoc struct {
	Version int `json:"version"`
	plan.StrategiesDocument
}

// TestPlanStrategies compares the copies of several strategies with the plans of each.
func TestPlanStrategies(t *testing.T) {
	path := models + "/residual.json"
	text := succeed(t, "plan", path, "--strategies", "all", "--dim", "N=2", "--json")
	valid(t, "strategies", text)
	doc := decode[strategiesDoc](t, text)
	if len(doc.Plans) != len(extend(t).StrategyNames()) || doc.LowerBoundNS == nil {
		t.Fatalf("%+v", doc)
	}
	copies := 0
	for _, p := range doc.Plans {
		alone := decode[planJSON](t, succeed(t, "plan", path, "--strategy", p.Strategy, "--dim", "N=2", "--json"))
		if alone.CostNS != p.CostNS || len(alone.Copies) != p.Copies || len(p.Inserted) != p.Copies ||
			p.CostNS < *doc.LowerBoundNS-1e-6 || (p.CopyNS > 0) != (p.Copies > 0) {
			t.Errorf("%s: %+v", p.Strategy, p)
		}
		copies += p.Copies
	}
	if copies == 0 {
		t.Error("no strategy inserts a copy")
	}
	out := succeed(t, "plan", path, "--strategies", "contiguous,propagate,optimal", "--dim", "N=2")
	if words := strings.Join(strings.Fields(out), " "); !strings.HasPrefix(out, "contiguous inserts 1 copy (16 KiB, ") ||
		!strings.Contains(words, "); optimal inserts no copy the copy under contiguous is a copy of image: input `image` ") ||
		!strings.Contains(out, "\nCopies of propagate\n") || !strings.Contains(out, "is pinned to (N,C,H,W)") {
		t.Error(out)
	}
	out = succeed(t, "plan", path, "--strategies", "optimal,neocpu", "--dim", "N=2")
	if !strings.HasPrefix(out, "optimal and neocpu insert no copy\n") {
		t.Error(out)
	}
	for args, want := range map[string]string{
		"--strategies optimum":                  "did you mean optimal",
		"--strategies optimal,optimal":          `--strategies names "optimal" twice`,
		"--strategies all --strategy optimal":   "--strategies excludes --strategy and --sweep",
		"--strategies all --sweep N=1..4":       "--strategies excludes --strategy and --sweep",
		"--strategies all --max-copies 1":       "--strategies and --max-copies exclude each other",
		"--strategies all --dim N=1,2":          "--strategies: --dim accepts one size for a symbol",
		"--strategies push --slack 1%":          "--slack",
		"--strategies= --dim N=2":               "--strategies is empty",
		"--strategies optimal --max-memory 1MB": "--strategies and --max-memory exclude each other",
	} {
		if r := call(t, append([]string{"plan", path}, strings.Fields(args)...)...); r.code != exit.CodeUsage ||
			!strings.Contains(r.errors, want) {
			t.Errorf("%s: exit %d, %s", args, r.code, r.errors)
		}
	}
}
