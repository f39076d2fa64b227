package inputs

import (
	"context"
	"runtime/debug"
	"slices"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Workload is a graph to measure, with its inputs.
type Workload struct {
	Graph  *graph.Graph
	Inputs *Set
}

// LoadWorkload reads a graph and its inputs, and infers the graph. dims are the values of --dim that fix a size, such
// as N=8. hints are combinations of sizes, by symbol: N=1,64 and M=2,3 give four combinations ([command.SplitHints]). A
// program gets a plan for each. pins are the values of --pin, which fix layouts, implementations and devices
// ([command.ApplyPins]).
func LoadWorkload(ctx context.Context, ext *command.Extensions, path string, dims, pins []string,
	hints []map[string]int, src Sources) (w Workload, err error) {
	command.LimitGarbage()
	g, given, err := Load(ctx, ext, src, path, dims)
	if err != nil {
		return w, err
	}
	defer given.Close() // for errors before ReadValues, which also closes it; a second call has no effect
	if err := command.BindHints(path, g, hints); err != nil {
		return w, err
	}
	if err := command.Infer(ctx, g); err != nil {
		return w, err
	}
	if err := command.ApplyPins(ctx, g, pins); err != nil {
		return w, err
	}
	inputSet, err := src.ReadValues(g, given)
	// Without the defaults, the program need not be ready to override them, and keeps no weights for that.
	return Workload{g.WithConstantDefaults(), inputSet}, err
}

// Load reads a graph file or a model, and the headers of the arrays for its inputs. The symbols are bound by dims (the
// values of --dim) and by the shapes of the arrays. The graph is not yet inferred.
func Load(ctx context.Context, ext *command.Extensions, src Sources, path string, dims []string) (*graph.Graph, *Arrays,
	error) {
	f, err := ext.Open(ctx, path, dims, src.KeepGoing, src.Cache)
	if err != nil {
		return nil, nil, err
	}
	given, err := src.read(f.Inputs())
	if err != nil {
		return nil, nil, err
	}
	g, err := bindArrays(ctx, f, given)
	if err != nil {
		given.Close()
		return nil, nil, err
	}
	return g, given, nil
}

// DropConstants replaces Graph by a copy without the data of the constants. A compiled program does not need the data,
// and packed weights would otherwise be in memory twice. DropConstants returns the memory to the system explicitly.
// Runs allocate so little that Go's garbage collector would rarely run and would keep the memory.
func (w *Workload) DropConstants() {
	bytes := 0
	for _, v := range w.Graph.Constants {
		if s := v.Const.Storage(); s != nil {
			bytes += s.Len()
		}
	}
	if bytes < minDroppedBytes {
		return
	}
	w.Graph = w.Graph.Clone()
	for _, v := range w.Graph.Constants {
		v.Const = &tensor.Tensor{Meta: v.Const.Meta}
	}
	for i, v := range w.Inputs.Generated { // replace the old values, which would keep the old graph in memory
		index := slices.IndexFunc(w.Graph.Inputs, func(input *graph.Value) bool { return input.Name == v.Name })
		w.Inputs.Generated[i] = w.Graph.Inputs[index]
	}
	debug.FreeOSMemory()
}

// minDroppedBytes is the minimum size of the constants that DropConstants drops. For fewer bytes, the pause for garbage
// collection is not worthwhile.
const minDroppedBytes = 16 << 20
