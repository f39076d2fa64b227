package catalogue

import (
	"bufio"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/onnx"
)

// OperatorsDocument is the output of ops --onnx.
type OperatorsDocument struct {
	Operators []OperatorDoc `json:"operators" doc:"The operators that ONNX models may use, by domain and name."`
}

// OperatorDoc describes an operator of ONNX models.
type OperatorDoc struct {
	Domain       string   `json:"domain" doc:"The domain; empty for the default domain ai.onnx."`
	Name         string   `json:"name" doc:"The name of the operator."`
	Since        int      `json:"since" doc:"The first version of the domain's operator set that has the operator."`
	Restrictions []string `json:"restrictions" doc:"The calls that are rejected, except calls with element types that graphrun has no dtype for."`
}

// showOperators prints the operators of ONNX models. If there are patterns, it prints only operators whose names match
// one of them. With --search, it prints only operators whose domain and name contain f.match.
func (f flags) showOperators(cmd *cobra.Command, patterns []string) error {
	if f.kind != "" || f.dtype != "" {
		return exit.UsageErrorf("--onnx lists operators of models, which have no --kind and no --dtype")
	}
	list, err := onnx.SupportedOperators(onnx.Options{Lookup: f.ext.Lookup, Operators: f.ext.Operators})
	if err != nil {
		return err
	}
	doc := OperatorsDocument{Operators: []OperatorDoc{}}
	for _, operator := range list {
		chosen := len(patterns) == 0 || matchesAny(patterns, operator.Name)
		if chosen && strings.Contains(strings.ToLower(operator.Domain+" "+operator.Name), strings.ToLower(f.match)) {
			doc.Operators = append(doc.Operators, OperatorDoc{operator.Domain, operator.Name, operator.Since,
				program.NotNil(operator.Restrictions)})
		}
	}
	if len(doc.Operators) == 0 {
		return exit.UsageErrorf("no operator matches; graphrun ops --onnx lists all of them")
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	if f.json {
		document.Write(out, &doc)
		return out.Flush()
	}
	const minWidth = 20 // characters of the restrictions that a narrow terminal shows, if possible
	table := term.NewTable(term.NameCol("operator"), term.UntruncatedCol("domain"), term.NumberCol("since"),
		term.PhraseCol("restrictions", minWidth))
	for _, operator := range doc.Operators {
		table.Add(operator.Name, operator.Domain, operator.Since, strings.Join(operator.Restrictions, "; "))
	}
	table.Write(out, term.StdoutDisplay(cmd))
	return out.Flush()
}
