package kernels_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

var updateGuards = flag.Bool("update-guards", false, "rewrite "+guardsFile)

const guardsFile = "testdata/guards.txt"

// TestGuards compares the guards that inference of each example adds if all sizes are unknown with a list. A condition
// that is asked needlessly, such as whether a value is empty, adds a guard, and results then hold for fewer sizes.
func TestGuards(t *testing.T) {
	testsize.Long(t)
	var all strings.Builder
	for _, op := range kernels.All() {
		for i, example := range op.Examples {
			guards, err := exampleGuards(op, example)
			require.NoError(t, err, op.Name)
			if len(guards) > 0 {
				fmt.Fprintf(&all, "%s, example %d\n", op.Name, i)
			}
			for _, guard := range guards {
				fmt.Fprintf(&all, "\t%v\n", guard)
			}
		}
	}
	if *updateGuards {
		require.NoError(t, os.WriteFile(guardsFile, []byte(all.String()), 0o644))
	}
	want, err := os.ReadFile(guardsFile)
	require.NoError(t, err)
	if string(want) != all.String() {
		known := map[string]bool{}
		for line := range strings.Lines(string(want)) {
			known[line] = true
		}
		for line := range strings.Lines(all.String()) {
			if !known[line] {
				t.Log("new: " + strings.TrimSuffix(line, "\n"))
			}
		}
		t.Errorf("the guards differ from %s. If only guards of new ops are added, run\n"+
			"\tgo test ./kernels -run 'TestGuards$' -update-guards", guardsFile)
	}
}

// exampleGuards infers an example with a symbol for each size, such as x1_2 for dimension 2 of operand 1. A failure of
// inference has guards, too.
func exampleGuards(op *graph.Op, example graph.Example) ([]sym.Bool, error) {
	attrs, err := op.Schema.Decode(example.Attrs, nil)
	if err != nil {
		return nil, err
	}
	env, call := sym.NewEnv(), &graph.Call{Attrs: attrs}
	for i, meta := range example.In {
		if meta.DType == tensor.Invalid {
			call.In = append(call.In, graph.Arg{})
			continue
		}
		symbolic := meta.Type()
		for dim, size := range meta.Shape {
			const maxSize = 1 << 20
			if symbolic.Shape[dim], err = env.Symbol(fmt.Sprintf("x%d_%d", i, dim), 0, maxSize, size); err != nil {
				return nil, err
			}
		}
		if meta.IsContiguous() {
			symbolic = tensor.NewType(meta.DType, symbolic.Shape...)
		}
		value := &graph.Value{Name: fmt.Sprint("x", i), Meta: meta, Type: symbolic}
		call.In = append(call.In, graph.Arg{Kind: graph.TensorArg, Value: value})
	}
	_, _ = op.Infer(call)
	return env.Guards(), nil
}
