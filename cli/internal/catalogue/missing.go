package catalogue

import (
	"bufio"
	_ "embed"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/term"
)

// MissingDocument is the output of ops --missing.
type MissingDocument struct {
	Names   int           `json:"names" doc:"The number of names in PyTorch's operator suite."`
	Missing []MissingName `json:"missing" doc:"The selected names of the suite that no op has, in order."`
}

// MissingName describes a name of PyTorch's operator suite that no op has.
type MissingName struct {
	Name   string `json:"name" doc:"The name in the suite."`
	Reason string `json:"reason" doc:"The reason why there is no op."`
}

// showMissing prints the names of PyTorch's operator suite that no op has. If there are patterns, it prints only names
// that match one of them. With --search, it prints only names that contain f.match, or whose reason contains it.
func (f flags) showMissing(cmd *cobra.Command, patterns []string) error {
	if f.kind != "" || f.dtype != "" || f.onnx {
		return exit.UsageErrorf("--missing cannot be combined with --kind, --dtype or --onnx")
	}
	doc := MissingDocument{Names: len(suite()), Missing: missingNames(opNamesOf(f.ext.Ops()))}
	doc.Missing = slices.DeleteFunc(doc.Missing, func(missing MissingName) bool {
		if len(patterns) > 0 && !matchesAny(patterns, missing.Name) {
			return true
		}
		return !strings.Contains(strings.ToLower(missing.Name+" "+missing.Reason), strings.ToLower(f.match))
	})
	if len(doc.Missing) == 0 {
		return exit.UsageErrorf("no missing name matches; graphrun ops --missing lists all of them")
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	if f.json {
		document.Write(out, &doc)
		return out.Flush()
	}
	const minWidth = 20 // minimum width of the column of reasons, in characters
	table := term.NewTable(term.NameCol("name"), term.PhraseCol("reason", minWidth))
	for _, missing := range doc.Missing {
		table.Add(missing.Name, missing.Reason)
	}
	table.Write(out, term.StdoutDisplay(cmd))
	return out.Flush()
}

// missingNames returns the names of the suite that none of the ops has.
func missingNames(ops []string) []MissingName {
	list := []MissingName{}
	for _, s := range suite() {
		if !s.isIn(ops) {
			list = append(list, MissingName{s.name, reasonFor(s.name)})
		}
	}
	return list
}

// suiteText has the names of PyTorch's operator suite (op_db of torch.testing), one per line, each followed by its
// aliases. scripts/aten_walk/suite.py writes it.
//
//go:embed suite.txt
var suiteText string

// suiteName is a name of PyTorch's operator suite with its aliases.
type suiteName struct {
	name    string
	aliases []string
}

// suite returns the names of PyTorch's operator suite in order.
func suite() []suiteName {
	var list []suiteName
	for line := range strings.Lines(suiteText) {
		words := strings.Fields(line)
		list = append(list, suiteName{words[0], words[1:]})
	}
	return list
}

// isIn reports whether a list of op names contains an op for s. Such an op has the name of s or one of its aliases, or
// the table sameOp maps the name of s to it. The name of an op has underscores in place of dots, and may lack the
// prefix "nn.functional." or "special.".
func (s suiteName) isIn(ops []string) bool {
	has := func(name string) bool { return slices.Contains(ops, name) }
	return slices.ContainsFunc(append([]string{s.name}, s.aliases...), func(name string) bool {
		short := strings.TrimPrefix(strings.TrimPrefix(name, "nn.functional."), "special.")
		return has(strings.ReplaceAll(name, ".", "_")) || has(strings.ReplaceAll(short, ".", "_"))
	}) || has(sameOp[s.name])
}

// reasonFor returns the first reason of [reasons] whose patterns match a name, or "".
func reasonFor(name string) string {
	for _, r := range reasons {
		if matchesAny(strings.Fields(r.patterns), name) {
			return r.reason
		}
	}
	return ""
}

// matchesAny reports whether one of the patterns (see [path.Match]) matches a name.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}
