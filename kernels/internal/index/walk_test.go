package index_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestEmptyTuples checks a scatter whose tuples have no indices: each slice of updates is added to all of self.
func TestEmptyTuples(t *testing.T) {
	self := kerneltest.Filled(tensor.New(tensor.Float32, 5, 7), kerneltest.NonzeroValues(rand.New(rand.NewPCG(1, 2))))
	updates := kerneltest.Filled(tensor.New(tensor.Float32, 3, 5, 7),
		kerneltest.NonzeroValues(rand.New(rand.NewPCG(3, 4))))
	kerneltest.CheckKernel(t, "scatter_nd", graph.Attrs{"reduce": "add"},
		[]*tensor.Tensor{self, tensor.Zeros(tensor.Int64, 3, 0), updates})
}

// TestFirstIndexOfRows checks that a scatter of rows reports the first row with an index that is out of bounds, if
// dimensions of the table have their own indices.
func TestFirstIndexOfRows(t *testing.T) {
	self, values := tensor.Zeros(tensor.Float32, 5, 7, 4), tensor.Zeros(tensor.Float32, 3, 4)
	rows := tensor.Must(tensor.FromSlice([]int64{0, 1, 9}, 3))
	columns := tensor.Must(tensor.FromSlice([]int64{0, 8, 2}, 3))
	in := []*tensor.Tensor{self, values, rows, columns}
	op := kernels.Lookup("index_put")
	call, err := kerneltest.CallOf(op, graph.Attrs{"accumulate": true},
		[]tensor.Meta{self.Meta, values.Meta, rows.Meta, columns.Meta})
	require.NoError(t, err)
	_, err = kerneltest.RunCall(op, call, in)
	require.ErrorContains(t, err, "index 8 is out of bounds for dimension 1")
}
