package command

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroup is a heading of the help, and the names of the flags below it, of all commands.
type flagGroup struct {
	heading string
	flags   []string
}

// flagGroups lists the groups in the order of the help. A flag of several commands is in the same group in all of them.
var flagGroups = []flagGroup{
	{"Model and inputs", []string{"constant", "dim", "input", "inputs", "keep-going", "models", "seed", "shape"}},
	{"Images", []string{"crop", "deviation", "mean", "resize"}},
	{"Plan and run", []string{"cache", "cache-size", "caches", "costs", "device", "exact", "no-fusion", "pin", "prices",
		"slack", "solver-time-limit", "strategies", "strategy", "threads", "tuned", "variant"}},
	{"Measurement", []string{"budget", "for", "regret", "runs", "turn", "until"}},
	{"Checks and limits of the plan", []string{"check", "max-copies", "max-memory"}},
	{"Questions about the plan", []string{"code", "first-break", "for-all", "k-best", "measure", "sensitivity", "sweep"}},
	{"Proofs and other solvers", []string{"certificate", "problem", "problems", "solution"}},
	{"Drawing", []string{"around", "as-written", "depth", "direction", "hops", "open"}},
	{"Batches", []string{"batching", "max-batch-size", "max-queue-delay", "preferred-batch-size", "queue"}},
	{"Server", []string{"drain", "listen", "log-json", "max-body", "reload", "timeout", "tls-cert", "tls-key",
		"token-file"}},
	{"Parts of the work", []string{"part-size", "results", "resume", "retry", "shard", "shards", "status"}},
	{"Output", []string{"benchstat", "csv", "dump", "json", "markdown", "output", "outputs", "passes", "profile", "report",
		"trace"}},
}

// mostUngrouped is the number of flags up to which the help has a single list.
const mostUngrouped = 12

// GroupFlags makes the help of root and of its subcommands list many flags in groups with headings. Cobra's templates
// are not used, because they link text/template: the linker then keeps every exported method.
func GroupFlags(root *cobra.Command) {
	usual := new(cobra.Command).UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		out := cmd.OutOrStderr()
		var text bytes.Buffer
		cmd.SetOut(&text)
		err := usual(cmd)
		cmd.SetOut(out)
		if err != nil {
			return err
		}
		list := "Flags:\n" + strings.TrimRight(cmd.LocalFlags().FlagUsages(), "\n")
		_, err = out.Write([]byte(strings.Replace(text.String(), list, groupedUsages(cmd.LocalFlags()), 1)))
		return err
	})
}

// groupedUsages returns the help of flags below the headings of their groups; flags without a group come last. A flag
// has one line. The columns of all groups are aligned.
func groupedUsages(flags *pflag.FlagSet) string {
	lines := strings.Split(strings.TrimRight(flags.FlagUsages(), "\n"), "\n")
	if len(lines) <= mostUngrouped {
		return "Flags:\n" + strings.Join(lines, "\n")
	}
	groups := append(slices.Clone(flagGroups), flagGroup{heading: "Other"})
	byGroup := make([][]string, len(groups))
	i := 0
	flags.VisitAll(func(f *pflag.Flag) { // in the order of FlagUsages
		if f.Hidden || f.Deprecated != "" || i >= len(lines) {
			return
		}
		group := slices.IndexFunc(flagGroups, func(g flagGroup) bool { return slices.Contains(g.flags, f.Name) })
		if group < 0 {
			group = len(flagGroups)
		}
		byGroup[group] = append(byGroup[group], lines[i])
		i++
	})
	var texts []string
	for k, list := range byGroup {
		if len(list) > 0 {
			texts = append(texts, groups[k].heading+":\n"+strings.Join(list, "\n"))
		}
	}
	return strings.Join(texts, "\n\n")
}
