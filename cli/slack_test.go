package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/exit"
)

// TestSlack checks the flag --slack: its values, and its effect on plans, certificates and other commands.
func TestSlack(t *testing.T) {
	dir := t.TempDir()
	file := write(t, "g.json", small)
	for _, bad := range []string{"0.5", "-1%", "101%", "NaN%", "much", "%"} {
		for _, args := range [][]string{{"plan"}, {"run"}, {"bench"}, {"compare"}, {"diff"}, {"explain"},
			{"view", "--strategy", "optimal", "-o", filepath.Join(dir, "x.svg")}} {
			args = append(args, file, "--slack", bad)
			if args[0] == "explain" {
				args = append(args, "y")
			}
			r := call(t, args...)
			require.Equal(t, exit.CodeUsage, r.code, "%v", args)
			require.Contains(t, r.errors, "--slack "+bad+": want a percentage from 0% to 100%, such as 0.5%", "%v", args)
		}
	}
	r := call(t, "plan", file, "--slack", "1%", "--strategy", "propagate")
	require.Equal(t, exit.CodeUsage, r.code)
	require.Contains(t, r.errors, "--slack: only strategy optimal can accept a higher cost for fewer copies")

	certificate := filepath.Join(dir, "c.json")
	var doc struct {
		Fewest struct {
			Slack   float64 `json:"slack"`
			Copies  int     `json:"copies"`
			AtLeast int     `json:"at_least"`
			Proved  bool    `json:"proved"`
		} `json:"fewest_copies"`
	}
	out := succeed(t, "plan", file, "--slack", "50%", "--json", "--certificate", certificate)
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	require.Equal(t, 0.5, doc.Fewest.Slack)
	require.True(t, doc.Fewest.Proved)
	require.Contains(t, unwrapped(succeed(t, "plan", file, "--slack", "50%")),
		"0 copies for 0ns (0%) more than the lower bound; proved: no plan within the slack of 50% has fewer")
	require.Contains(t, succeed(t, "verify", file, certificate),
		"of the plans that cost at most 50% more than the bound, none has fewer")
	for _, args := range [][]string{{"run"}, {"bench", "--runs", "1"}, {"compare", "--runs", "1"}, {"diff"}} {
		succeed(t, append(args, file, "--slack", "50%")...)
	}
}

// TestSlackCombined combines --slack with pins, --max-memory and several sizes. The two copies of the optimum can be
// avoided for less than 100% of its cost.
func TestSlackCombined(t *testing.T) {
	command := []string{"plan", models + "/pointwise.json", "--costs", "../pricing/profiles/avx512.json"}
	planned := func(args ...string) (doc slackDoc) {
		t.Helper()
		args = slices.Concat(command, []string{"--json"}, args)
		require.NoError(t, json.Unmarshal([]byte(succeed(t, args...)), &doc))
		require.NotNil(t, doc.Fewest)
		require.Equal(t, len(doc.Copies), doc.Fewest.Copies)
		return doc
	}
	least, fewest := planned("--dim", "N=2"), planned("--dim", "N=2", "--slack", "100%")
	require.Len(t, least.Copies, 2)
	require.Empty(t, fewest.Copies)

	// A copy that a pin requires remains, and it is proved that it must.
	pinned := planned("--dim", "N=2", "--slack", "100%", "--pin", "photo=contiguous", "--pin", "clipped=contiguous")
	require.Len(t, pinned.Copies, 1)
	require.Equal(t, "photo", pinned.Copies[0].Value)
	require.True(t, pinned.Fewest.Proved)
	require.Equal(t, 1, pinned.Fewest.AtLeast)

	// The plan with fewer copies is within a limit that the plan of least cost exceeds.
	need := func(d slackDoc) int { return d.PeakBytes + d.Memory.Inputs + d.Memory.Constants + d.Memory.Packed }
	require.Less(t, need(fewest), need(least))
	within := planned("--dim", "N=2", "--slack", "100%", "--max-memory", strconv.Itoa(need(fewest)))
	require.Equal(t, fewest.CostNS, within.CostNS)
	// A plan that replaces a rejected plan does not have the slack, and the answer says so.
	r := call(t, append(command, "--dim", "N=2", "--slack", "1%", "--max-memory", strconv.Itoa(need(least)-1))...)
	require.Equal(t, exit.CodeDone, r.code, r.errors)
	require.Contains(t, r.out, "--slack does not apply to this plan")

	// The slack holds at the sizes that are planned: between the shares that two sizes need, one plan has copies.
	share := func(size string) float64 {
		return planned("--dim", size, "--slack", "100%").CostNS/planned("--dim", size).CostNS - 1
	}
	dear, cheap := "N=2", "N=128"
	if share(dear) < share(cheap) {
		dear, cheap = cheap, dear
	}
	require.Greater(t, share(dear), share(cheap)+1e-4)
	slack := fmt.Sprintf("%.4f%%", 50*(share(dear)+share(cheap)))
	require.NotEmpty(t, planned("--slack", slack, "--dim", dear).Copies)
	require.Empty(t, planned("--slack", slack, "--dim", cheap).Copies)
	text := succeed(t, append(command, "--slack", slack, "--dim", "N=2,128")...)
	require.Regexp(t, `Plan for `+dear+` and sizes like these\n(.*\n)*?[12] cop(y|ies) inserted`, text)
	require.Regexp(t, `Plan for `+cheap+` and sizes like these\n(.*\n)*?0 copies inserted`, text)
}

// slackDoc has the members of a plan that TestSlackCombined reads.
type slackDoc struct {
	planJSON
	Fewest *struct {
		Copies  int
		AtLeast int `json:"at_least"`
		Proved  bool
	} `json:"fewest_copies"`
}
