package cli

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/experiment"
)

// TestMaxCopies fails where there are more copies than permitted, with the reasons.
func TestMaxCopies(t *testing.T) {
	path := models + "/residual.json"
	succeed(t, "plan", path, "--strategy", "propagate", "--max-copies", "1")
	none := []string{"plan", path, "--strategy", "propagate", "--max-copies", "0"}
	r := call(t, none...)
	if r.code != exit.CodeFailed || !strings.Contains(r.errors, "1 copy is inserted, --max-copies allows 0:\n  act2 from "+
		"[2048,1,128,8] to [2048,256,16,1], 16 KiB, ") || !strings.Contains(r.errors, "; `y` is pinned to (N,C,H,W); ") ||
		!strings.Contains(r.out, "Inserted copies") {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
	if r := call(t, append(none, "--json")...); r.code != exit.CodeFailed || r.out == "" {
		t.Errorf("exit %d, %s", r.code, r.out)
	} else {
		valid(t, "plan", r.out)
	}
	if r := call(t, "plan", path, "--max-copies", "-1"); r.code != exit.CodeUsage {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
}

// TestMaxMemory takes another strategy's plan where that needs less, says what it costs, and fails where none does.
func TestMaxMemory(t *testing.T) {
	path, needs := models+"/ambiguous.json", map[string]int{}
	const asked = "contiguous"
	costs, least := map[string]float64{}, ""
	for _, s := range extend(t).StrategyNames() {
		doc := decode[planJSON](t, succeed(t, "plan", path, "--json", "--strategy", s))
		needs[s] = doc.PeakBytes + doc.Memory.Inputs + doc.Memory.Constants + doc.Memory.Packed
		costs[s] = doc.CostNS
		if least == "" || needs[s] < needs[least] {
			least = s
		}
	}
	if needs[asked] <= needs[least] {
		t.Fatalf("%s needs least: %v", asked, needs)
	}
	doc := decode[planJSON](t, succeed(t, "plan", path, "--json", "--strategy", asked, "--max-memory",
		strconv.Itoa(needs[asked])))
	if doc.Strategy != asked || doc.Rejected != nil {
		t.Errorf("%s, %v", doc.Strategy, doc.Rejected)
	}
	limit := strconv.Itoa(needs[asked] - 1)
	r := call(t, "plan", path, "--json", "--strategy", asked, "--max-memory", limit)
	valid(t, "plan", r.out)
	doc = decode[planJSON](t, r.out)
	if r.code != exit.CodeDone || doc.Strategy == asked || needs[doc.Strategy] >= needs[asked] ||
		len(doc.Rejected) == 0 || doc.Rejected[0].Strategy != asked || doc.Rejected[0].Bytes != needs[asked] ||
		doc.Rejected[0].CostNS != costs[asked] {
		t.Errorf("exit %d, %s, %+v", r.code, doc.Strategy, doc.Rejected)
	}
	for s := range needs {
		if needs[s] < needs[asked] && costs[s] < costs[doc.Strategy] {
			t.Errorf("%s is cheaper than %s", s, doc.Strategy)
		}
	}
	if !strings.Contains(r.errors, "more than --max-memory "+limit+"\n") ||
		!strings.Contains(r.errors, doc.Strategy+" needs ") ||
		!strings.Contains(r.errors, "for an estimated cost of ") {
		t.Error(r.errors)
	}
	r = call(t, "plan", models+"/residual.json", "--max-memory", "1KiB")
	if r.code != exit.CodeFailed || !strings.Contains(r.out, "\nMemory of a run\n") || !strings.Contains(r.errors,
		"no plan needs at most --max-memory 1KiB: every plan needs at least ") ||
		!strings.HasPrefix(r.out, "no plan needs at most --max-memory 1KiB: every plan needs at least ") ||
		!strings.Contains(r.errors, "; the plan of ") || !strings.Contains(r.errors, ", the least of the ") ||
		!strings.Contains(r.errors, "; its largest values are input \"image\", ") {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
	if r := call(t, "plan", path, "--max-memory", "much"); r.code != exit.CodeUsage ||
		!strings.Contains(r.errors, "--max-memory much: want a size such as 64MiB") {
		t.Errorf("exit %d, %s", r.code, r.errors)
	}
}

// TestThreadsMemory compares the memory that plan, diff and bench state for one, two and four workers.
func TestThreadsMemory(t *testing.T) {
	path := models + "/attention.json"
	scratch := 0
	for _, threads := range []int{1, 2, 4} {
		n := strconv.Itoa(threads)
		doc := decode[planJSON](t, succeed(t, "plan", path, "--json", "--threads", n))
		m := doc.Memory
		if threads == 1 {
			scratch = m.Scratch
			require.Positive(t, scratch)
		}
		assert.Equal(t, threads*scratch, m.Scratch, "%d workers", threads)
		assert.Equal(t, m.Arena+m.Outputs+m.Scratch, doc.PeakBytes, "%d workers", threads)
		assert.Equal(t, doc.PeakBytes+m.Inputs+m.Constants+m.Packed, m.Total, "%d workers", threads)
		assert.Contains(t, succeed(t, "bench", path, "--json", "--runs", "1", "--threads", n),
			fmt.Sprintf(`"peak_bytes": %d,`, doc.PeakBytes))
		peak := format.Bytes(doc.PeakBytes)
		assert.Contains(t, succeed(t, "plan", path, "--threads", n), "peak memory "+peak+" ")
		assert.Regexp(t, "peak memory +"+peak+" ", succeed(t, "diff", path, "--threads", n, "--strategies",
			"optimal,propagate"))
		succeed(t, "plan", path, "--threads", n, "--max-memory", strconv.Itoa(m.Total), "--max-copies", "9")
	}
	for _, args := range [][]string{{"plan", "--threads", "-1"}, {"diff", "--threads", "-1"},
		{"plan", "--measure", "--threads", "2"}} {
		r := call(t, append(args, path)...)
		assert.Equal(t, exit.CodeUsage, r.code, args)
		assert.Contains(t, r.errors, "--threads")
	}
}

// TestMaxMemoryIsCheapest compares the chosen plan with all of the cheapest plans and all strategies.
func TestMaxMemoryIsCheapest(t *testing.T) {
	optimal := 0
	for _, model := range []string{"ambiguous", "residual", "pointwise", "attention", "stride_rules", "mlp"} {
		path := models + "/" + model + ".json"
		g, err := graphrun.Load(t.Context(), path)
		require.NoError(t, err)
		type candidate struct {
			cost  float64
			needs int
		}
		var plans []candidate
		compiled := func(s graphrun.Strategy) *graphrun.Program {
			p, err := graphrun.Compile(t.Context(), g.Clone(), graphrun.Options{Strategy: s})
			require.NoError(t, err)
			r := p.Report()
			plans = append(plans, candidate{r.CostNS, r.PeakBytes + r.Memory.Inputs + r.Memory.Constants + r.Memory.Packed})
			return p
		}
		list, _, err := experiment.Best(compiled(graphrun.Optimal), 16)
		require.NoError(t, err)
		for _, c := range list {
			compiled(c.Strategy())
			require.InDelta(t, c.CostNS, plans[len(plans)-1].cost, 1e-6, model)
		}
		for _, s := range graphrun.Strategies() {
			compiled(s)
		}
		limit := plans[0].needs
		for range 9 { // what the optimum needs, then what is cheapest within less, and so on
			limit--
			cheapest := -1.0
			next := 0
			for _, p := range plans {
				if p.needs <= limit && (cheapest < 0 || p.cost < cheapest) {
					cheapest, next = p.cost, p.needs
				}
			}
			r := call(t, "plan", path, "--json", "--strategy", "optimal", "--max-memory", strconv.Itoa(limit))
			if cheapest < 0 {
				assert.Equal(t, exit.CodeFailed, r.code, "%s within %d", model, limit)
				valid(t, "plan", r.out)
				leastBytes := decode[planJSON](t, r.out).Within.LeastBytes
				want := fmt.Sprintf("no plan was found that needs at most --max-memory %d; ", limit)
				if leastBytes > limit {
					want = fmt.Sprintf("no plan needs at most --max-memory %d: every plan needs at least %s; ", limit,
						format.Bytes(leastBytes))
				}
				assert.Contains(t, r.errors, want, model)
				for _, p := range plans {
					assert.LessOrEqual(t, leastBytes, p.needs, model)
				}
				break
			}
			valid(t, "plan", r.out)
			doc := decode[planJSON](t, r.out)
			require.NotNil(t, doc.Within, "%s within %d", model, limit)
			assert.InDelta(t, cheapest, doc.CostNS, 1e-6, "%s within %d", model, limit)
			assert.LessOrEqual(t, doc.Within.LowerBoundNS, doc.CostNS+1e-6)
			if doc.Within.Optimal {
				assert.Contains(t, r.errors, "it is the cheapest plan within the limit")
				optimal++
			} else {
				assert.Contains(t, r.errors, "costs at least "+format.Nanoseconds(doc.Within.LowerBoundNS))
			}
			limit = next
		}
	}
	assert.Positive(t, optimal)
}
