package cli

import (
	"encoding/json"
	"path/filepath"
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
			require.Equal(t, exit.CodeWrong, r.code, "%v", args)
			require.Contains(t, r.errors, "--slack "+bad+": want a percentage from 0% to 100%, such as 0.5%", "%v", args)
		}
	}
	r := call(t, "plan", file, "--slack", "1%", "--strategy", "propagate")
	require.Equal(t, exit.CodeWrong, r.code)
	require.Contains(t, r.errors, "--slack: only strategy optimal can take fewer copies for a higher cost")

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
	require.Contains(t, succeed(t, "plan", file, "--slack", "50%"), "no plan within the slack of 50% has fewer")
	require.Contains(t, succeed(t, "verify", file, certificate),
		"of the plans that cost at most 50% more than the bound, none has fewer")
	for _, args := range [][]string{{"run"}, {"bench", "--runs", "1"}, {"compare", "--runs", "1"}, {"diff"}} {
		succeed(t, append(args, file, "--slack", "50%")...)
	}
}
