package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/safetensors"
	"github.com/graphrun/graphrun/tensor"
)

// convertCommand returns the command convert.
func convertCommand(ext *command.Extensions) *cobra.Command {
	var dims []string
	cmd := &cobra.Command{
		Use:   "convert IN OUT",
		Short: "Write a model as a readable graph file",
		Long: `Writes an .onnx model or a graph file as a graph file in JSON, one node a line. Weights are written
to a .safetensors file with the same base name as OUT, under the names of their constants, unless OUT can
refer to the file that has them. Constants of few elements are written into OUT. OUT gives the same bits as
IN, with one exception: if shapes are computed from symbolic sizes, sums may round differently.

Symbolic sizes of a model stay symbols unless --dim fixes them. With fixed sizes, shapes that the model
computes become constants, and the graph is simpler. OUT and the weights are written atomically.`,
		Example: `  graphrun convert model.onnx model.json
  graphrun convert model.onnx batch8.json --dim N=8`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return command.UsageError(cmd, "convert wants a model and the graph file to write, got %s",
					format.Count(len(args), "argument"))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return []string{"onnx", "json"}, cobra.ShellCompDirectiveFilterFileExt
			case 1:
				return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error {
			return convert(cmd, ext, args[0], args[1], dims)
		}),
	}
	cmd.Flags().StringArrayVar(&dims, "dim", nil,
		"fix a symbolic dimension of an .onnx model, as in `N=8` (repeatable); "+command.NoSymbolsHelp)
	return cmd
}

// convert writes the graph of the file at inPath to outPath, and its weights to a file in the same folder: for
// out/model.json this is out/model.safetensors. It prints the numbers of nodes, constants and weights.
func convert(cmd *cobra.Command, ext *command.Extensions, inPath, outPath string, dims []string) error {
	if err := checkGraphPath(outPath); err != nil {
		return err
	}
	weightsName := strings.TrimSuffix(filepath.Base(outPath), filepath.Ext(outPath)) + ".safetensors"
	weightsPath := filepath.Join(filepath.Dir(outPath), weightsName)
	if err := cmp.Or(outfile.CheckWritable("OUT", outPath), outfile.CheckWritable("OUT", weightsPath)); err != nil {
		return err
	}
	job := progress.Begin(cmd, filepath.Base(inPath))
	defer job.End()
	var g *graph.Graph
	load := func() (err error) {
		g, err = loadConvert(job.Context, ext, inPath, dims)
		return err
	}
	if err := job.Do(progress.Loading, load); err != nil {
		return err
	}
	job.Enter(progress.Writing)
	weightCount, weightBytes, err := saveGraph(cmd.Context(), g, outPath, weightsName)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s: %s, %s", outPath, format.Count(len(g.Nodes), "node"),
		format.Count(len(g.Constants), "constant"))
	if weightCount > 0 {
		line += fmt.Sprintf("; %s: %s, %s", weightsPath, format.Count(weightCount, "tensor"), format.Bytes(weightBytes))
	}
	job.End() // before the first note is printed; the deferred call then has no effect
	command.PrintWarnings(cmd, inPath, g)
	maps := slices.DeleteFunc(sorted.Keys(g.Labels), func(name string) bool { return !g.Labels[name].IsMap() })
	if len(maps) > 0 {
		term.PrintNote(cmd, "graph files have no maps; the results %s are numbers in %s", strings.Join(maps, ", "), outPath)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), line)
	return err
}

// checkGraphPath returns an error if the path does not name a graph file.
func checkGraphPath(path string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json":
		return nil
	case ".safetensors":
		return exit.UsageErrorf("%s: the output must be a graph file, such as OUT.json; the weights are written to "+
			"OUT.safetensors beside it", path)
	case ".onnx":
		return exit.UsageErrorf("%s: convert cannot write ONNX models: the output must be a graph file, such as OUT.json",
			path)
	}
	return exit.UsageErrorf("%s: the output must be a graph file, such as OUT.json", path)
}

// loadConvert reads the graph to convert. Sizes that --dim does not fix remain symbols. If a model cannot be imported
// with symbols, the error suggests --dim.
func loadConvert(ctx context.Context, ext *command.Extensions, path string, dims []string) (*graph.Graph, error) {
	const keepGoing = false
	f, err := ext.Open(ctx, path, dims, keepGoing, nil) // nil: no cache
	if err != nil {
		return nil, err
	}
	if !f.IsModel() && len(dims) > 0 {
		return nil, exit.UsageErrorf("--dim fixes sizes of .onnx models only: a graph file keeps its symbols")
	}
	g, _, err := command.BoundGraph(ctx, f) // no mistakes, because keepGoing is false
	symbols := f.Symbols()
	someSymbolHasNoSize := len(symbols) > len(f.Loader.Sizes)
	if err != nil && f.IsModel() && someSymbolHasNoSize {
		return nil, exit.UsageErrorf("%w\nFix symbolic sizes, as in --dim %s=8.", err,
			slices.Min(slices.Collect(maps.Keys(symbols))))
	}
	if err != nil {
		return nil, err
	}
	return g, command.Infer(ctx, g)
}

// saveGraph writes a graph to path, and its weights to the file weightsName in the same folder. It returns the number
// and the size of the weights.
func saveGraph(ctx context.Context, g *graph.Graph, path, weightsName string) (weightCount, weightBytes int,
	err error) {
	write := func(weightsPath string, names []string, data []*tensor.Tensor) error {
		for _, t := range data {
			weightBytes += t.Bytes()
		}
		weightCount = len(data)
		return writeWeights(ctx, weightsPath, names, data)
	}
	err = graphfile.SaveFile(path, g, graphfile.SideFile(weightsName, isWeight, write))
	return weightCount, weightBytes, err
}

// maxInline is the largest number of elements of a constant that is written into the graph file itself.
const maxInline = 64

// isWeight reports whether a constant is written to the file of weights. Such a constant has more than maxInline
// elements, and the safetensors format supports its dtype and name.
func isWeight(v *graph.Value) bool {
	return v.Meta.Numel() > maxInline && v.Meta.DType != tensor.Complex128 && v.Name != "__metadata__"
}

// writeWeights writes a .safetensors file atomically.
func writeWeights(ctx context.Context, path string, names []string, data []*tensor.Tensor) error {
	entries := make([]safetensors.Entry, len(names))
	for i, name := range names {
		entries[i] = safetensors.Entry{Name: name, Tensor: data[i]}
	}
	return outfile.Write(ctx, path, func(w io.Writer) error { return safetensors.Write(w, entries, nil) })
}
