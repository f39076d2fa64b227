package main

import (
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
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
	cmd.Flags().StringVarP(&f.out, "output", "o", "", "write to `FILE.dot` (required)")
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
		return wrongf("-o %s: only .dot is supported by this version; Graphviz turns it into a picture: dot -Tsvg "+
			"-O FILE.dot", f.out)
	}
	if f.strategy != "" {
		if err := checkStrategy(f.strategy); err != nil {
			return err
		}
	}
	if err := checkWritable("-o", f.out); err != nil {
		return err
	}
	j := begin(cmd, filepath.Base(path))
	defer j.end()
	var g *graph.Graph
	if err := j.do(loading, func() (err error) { g, err = loadGraph(path, f.dims); return err }); err != nil {
		return err
	}
	var text []byte
	if err := j.do(planning, func() (err error) { text, err = drawn(g, f.strategy); return err }); err != nil {
		return err
	}
	j.end()
	tell(cmd, path, g)
	j.enter(writing)
	return writeWhole(cmd.Context(), f.out, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// drawn is a graph in DOT, as it is written or as it runs under a strategy.
func drawn(g *graph.Graph, strategy string) ([]byte, error) {
	if strategy == "" {
		return g.DOT()
	}
	if err := refuseDynamic(g, "the graph runs in segments, which graphrun plan shows"); err != nil {
		return nil, err
	}
	p, err := graphrun.Compile(g, graphrun.Options{Strategy: strategyOf(strategy), MemoryLimit: -1})
	if err != nil {
		return nil, err
	}
	return p.Graph().DOT()
}
