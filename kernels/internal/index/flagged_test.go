package index_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// runDynamic runs an op whose result has a shape that depends on data.
func runDynamic(t *testing.T, name string, attrs graph.Attrs, in ...*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	var metas []tensor.Meta
	for _, x := range in {
		metas = append(metas, x.Meta)
	}
	op := kernels.Lookup(name)
	call, err := kerneltest.CallOf(op, attrs, metas)
	require.NoError(t, err)
	out, err := op.RunDynamic(nil, call, in)
	require.NoError(t, err)
	return out
}

// TestLongFlags checks ops that select elements by flags, for more elements than a loop handles
// between two checks of its context. Element i of the flags is set if i%3 is 1, and element i of the values is i/3.
func TestLongFlags(t *testing.T) {
	const rows, columns = 300, 500
	const count = rows * columns
	flags, values := make([]bool, count), make([]int64, count)
	var selected, indices, distinct, lengths []int64
	for i := range count {
		flags[i], values[i] = i%3 == 1, int64(i/3)
		if flags[i] {
			selected = append(selected, int64(i/3))
			indices = append(indices, int64(i/columns), int64(i%columns))
			distinct, lengths = append(distinct, int64(i/3)), append(lengths, 3)
		}
	}
	mask := tensor.Must(tensor.FromSlice(flags, rows, columns))
	self := tensor.Must(tensor.FromSlice(values, rows, columns))
	requireElements := func(want []int64, got *tensor.Tensor) {
		t.Helper()
		elements, err := tensor.ToSlice[int64](got)
		require.NoError(t, err)
		require.Equal(t, want, elements)
	}
	requireElements(selected, runDynamic(t, "masked_select", nil, self, mask)[0])
	requireElements(indices, runDynamic(t, "nonzero", nil, mask)[0])
	runs := runDynamic(t, "unique_consecutive", graph.Attrs{"return_inverse": true, "return_counts": true}, self)
	requireElements(distinct, runs[0])
	requireElements(values, runs[1]) // the number of a run is its value
	requireElements(lengths, runs[2])
}
