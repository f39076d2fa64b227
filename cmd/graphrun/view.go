package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/passes"
)

type viewFlags struct {
	out, strategy string
	dims          []string
}

func viewCommand() *cobra.Command {
	var f viewFlags
	cmd := &cobra.Command{
		Use:   "view FILE -o OUT.dot",
		Short: "Draw a graph",
		Long: `Writes a drawing of the graph in Graphviz's DOT language, with dtypes, shapes and strides:
the graph as written, or with --strategy as it will run.`,
		Example: `  graphrun view examples/models/residual.json -o residual.dot
  graphrun view model.json -o model.dot --strategy propagate && dot -Tsvg -O model.dot`,
		Args:              oneFile,
		ValidArgsFunction: completeGraph,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return view(cmd, args[0], f)
		}),
	}
	cmd.Flags().StringVarP(&f.out, "output", "o", "", "file to write, .dot (required)")
	_ = cmd.MarkFlagFilename("output", "dot")
	strategyFlag(cmd, &f.strategy)
	cmd.Flags().Lookup("strategy").DefValue = "the graph as written"
	f.strategy = ""
	dimFlag(cmd, &f.dims)
	return cmd
}

func view(cmd *cobra.Command, path string, f viewFlags) error {
	switch filepath.Ext(f.out) {
	case ".dot":
	case "":
		return wrongf("view wants -o OUT.dot")
	default:
		return wrongf("-o %s: only .dot is served by this version; Graphviz turns it into a picture: dot -Tsvg -O FILE.dot", f.out)
	}
	g, err := loadGraph(path, f.dims)
	if err != nil {
		return err
	}
	tell(cmd.ErrOrStderr(), path, g)
	if f.strategy != "" {
		if err := checkStrategy(f.strategy); err != nil {
			return err
		}
		p, err := passes.Run(g, passes.Options{Strategy: f.strategy})
		if err != nil {
			return err
		}
		g = p.Graph
	}
	text, err := g.DOT()
	if err != nil {
		return err
	}
	return os.WriteFile(f.out, text, 0o644)
}
