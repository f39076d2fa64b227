package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/exit"
)

// TestPlanHints plans a graph for several sizes, and proves what holds at all of them.
func TestPlanHints(t *testing.T) {
	path := write(t, "g.json", transposing)
	doc := decode[planJSON](t, succeed(t, "plan", path, "--json", "--dim", "N=1,8", "--for-all", "no-copies"))
	if assert.Len(t, doc.Classes, 2) {
		assert.Equal(t, map[string]int{"N": 1}, doc.Classes[0].Hint)
		assert.Equal(t, map[string]int{"N": 8}, doc.Classes[1].Hint)
		for _, c := range doc.Classes {
			assert.Empty(t, c.Unknown)
			assert.Len(t, c.Guards, len(c.Holds))
			assert.NotEmpty(t, c.Regret)
			for _, r := range c.Regret {
				assert.Equal(t, (r.Sizes["N"] == 1) == (c.Hint["N"] == 1), r.Fits, "%v at %v", c.Hint, r.Sizes)
				assert.GreaterOrEqual(t, r.CostNS, r.BestNS)
			}
			assert.Equal(t, "greatest", c.Regret[len(c.Regret)-1].Choice)
		}
	}
	if assert.Len(t, doc.ForAll, 1) {
		assert.True(t, doc.ForAll[0].Proved, doc.ForAll[0].Why)
		assert.NotEmpty(t, doc.ForAll[0].Cases)
		assert.NotEmpty(t, doc.ForAll[0].Tried)
	}
	text := succeed(t, "plan", path, "--dim", "N=1,8")
	for _, want := range []string{"Plan for N=1 and sizes like these", "Plan for N=8", "cost if planned anew", "regret"} {
		assert.Contains(t, text, want)
	}
	for _, bad := range [][]string{{"--dim", "N=1,1"}, {"--dim", "N=1,8", "--dim", "N=3"}, {"--dim", "Q=1,2"},
		{"--dim", "N=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"}, {"--dim", "N=1,x"}} {
		r := call(t, append([]string{"plan", path}, bad...)...)
		assert.Equal(t, exit.CodeUsage, r.code)
		assert.Contains(t, r.errors, "--dim", strings.Join(bad, " "))
	}
}

// TestPlanBeyond checks the regret of sizes without an upper bound, and the report of a rejected hint.
func TestPlanBeyond(t *testing.T) {
	unbounded := strings.Replace(small, `"max": 64`, `"max": 0`, 1)
	require.NotEqual(t, small, unbounded)
	path := write(t, "g.json", unbounded)
	doc := decode[planJSON](t, succeed(t, "plan", path, "--json", "--dim", "N=2,8"))
	require.NotEmpty(t, doc.Classes)
	last := doc.Classes[0].Regret[len(doc.Classes[0].Regret)-1]
	assert.Equal(t, map[string]int{"N": 512}, last.Sizes)
	assert.Equal(t, "64 times the hint of N, which has no upper bound", last.Choice)
	assert.Contains(t, succeed(t, "plan", path, "--dim", "N=2,8"), last.Choice)

	path = write(t, "g.json", small)
	for _, command := range []string{"plan", "run"} {
		r := call(t, command, path, "--dim", "N=2,100")
		assert.Equal(t, 0, r.code, command)
		assert.Contains(t, r.errors, "there is no plan for N=100: N=100 is outside its bounds", command)
		assert.NotEqual(t, 0, call(t, command, path, "--dim", "N=100,2").code)
	}
}

// TestForAll finds sizes that break a property, and rejects invalid properties.
func TestForAll(t *testing.T) {
	path := write(t, "g.json", small)
	r := call(t, "plan", path, "--for-all", "p=channels_last")
	assert.Equal(t, exit.CodeFailed, r.code)
	assert.Contains(t, r.errors, "--for-all p=channels_last: it does not hold at N=")
	assert.Contains(t, r.out, "does not hold at N=")
	for _, bad := range []string{"fast", "q=contiguous", "p=wide", "contiguous(q)", "=contiguous"} {
		r := call(t, "plan", path, "--for-all", bad)
		assert.Equal(t, exit.CodeUsage, r.code, bad)
		assert.Contains(t, r.errors, "property", bad)
	}
}
