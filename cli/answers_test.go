package cli

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// unwrapped returns a text with its lines joined.
func unwrapped(text string) string { return strings.ReplaceAll(text, "\n", " ") }

// TestAnswersFirst wants the answer to the question of each call at the beginning of the output, in words.
func TestAnswersFirst(t *testing.T) {
	path, dir := models+"/residual.json", t.TempDir()
	page, proof := filepath.Join(dir, "a.svg"), filepath.Join(dir, "c.json")
	doc := decode[planJSON](t, succeed(t, "plan", path, "--json", "--strategy", "channels_last"))
	limit := strconv.Itoa(doc.PeakBytes + doc.Memory.Inputs + doc.Memory.Constants + doc.Memory.Packed)
	for _, c := range []struct{ args, want string }{
		{"plan --dim N=2", `strategy optimal: estimated cost \S+s, \d copies inserted \(.*\); proved: least cost among the `},
		{"plan --dim N=2 --slack 50%", `0 copies for \S+s \(.*%\) more than the lower bound; proved: no plan`},
		{"plan --dim N=2 --certificate " + proof, `\S*c.json proves that no plan among the forms considered costs less than ` +
			`\S+s, at the stated prices; graphrun verify checks it`},
		{"plan --dim N=2 --k-best 3", `the cheapest plan costs \S+s, the second \S+s \(.*%\) more \(.* and plan 3 \S+s `},
		{"plan --dim N=2 --k-best 3 --json", `{"version"`},
		{"plan --dim N=2 --sensitivity", `the cheapest plan is .* for copies that are \S+ times faster`},
		{"plan --dim N=2 --max-copies 9", `\d (copy is|copies are) inserted, --max-copies allows 9`},
		{"plan --strategy channels_last --max-memory " + limit, `a run of the plan of channels_last needs .* within --max-memory `},
		{"plan --for-all no-copies", `no-copies: proved for all sizes within bounds by `},
		{"plan --dim N=2 --measure", `\d+ runs by one worker: measured time of all steps `},
		{"plan --dim N=2 --passes " + dir + "/p.html", `\S*p.html shows the graph after each of \d+ passes`},
		{"plan --sweep N=1..8", `from N=1 to N=8 the plan of strategy optimal changes at N=\d at N=\d: 2 changes: .*cost/N `},
		{"plan --sweep N=8..16", `strategy optimal has the same plan for all sizes from N=8 to N=16: cost `},
		{"view --as-written -o " + page, `\S*a.svg shows residual.json: as written: \d+ nodes, \d+ constants`},
		{"view --dim N=2 --strategy optimal -o " + page, `\S*a.svg shows residual.json: strategy optimal: .* estimated cost \S+s, ` +
			`.*largest costs: \S+ \(conv2d.*\) \S+s, \d+\.\d%; `},
		{"view --dim N=2 --strategies propagate,optimal -o " + page, `\S*a.svg shows residual.json: optimal against propagate: -`},
		{"explain --dim N=2 conv2", `under strategy optimal: .*; 0 copies inserted for it`},
		{"bench --dim N=2 --threads 1 --runs 2", `A run of strategy optimal takes \S+s with 1 worker: the median of 2 runs ` +
			`into existing tensors \(RunInto\)\. The cost model predicts \S+s on one core\.`},
		{"compare --dim N=2 --threads 1 --runs 1 --strategies optimal", `optimal takes `},
	} {
		words := strings.Fields(c.args)
		out := unwrapped(succeed(t, append([]string{words[0], path}, words[1:]...)...))
		assert.Regexp(t, "^"+c.want, out, c.args)
	}
}
