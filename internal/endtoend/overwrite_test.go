package endtoend_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

// decodeStep is a step of a decoder: it writes new rows into a cache and multiplies by the result. variant selects
// further readers of the old cache.
func decodeStep(variant, positions int) *graph.Graph {
	g := graphrun.New(fmt.Sprint("decode", variant))
	cache, index := g.Input("past", tensor.Float32, 2, positions, 8), g.Input("index", tensor.Int64, 2, 1, 8)
	row := g.Input("row", tensor.Float32, 2, 1, 8)
	query := row
	if variant == 1 { // reads the old cache before it is written
		query = op.Add(row, op.Sum(cache, op.SumAttrs{Dim: []int{1}, Keepdim: true}))
	}
	present := op.Scatter(cache, index, row, 1)
	y := op.Matmul(op.Softmax(op.Matmul(query, op.Transpose(present, 1, 2)), 2), present)
	switch variant {
	case 2: // reads the old cache after it is written
		y = op.Add(y, op.Sum(op.Mul(op.Exp(cache), op.Sum(present)), op.SumAttrs{Dim: []int{1}, Keepdim: true}))
	case 3:
		present = op.Mul(present, 1.5)
	}
	g.Output("y", y)
	g.Output("present", present)
	if variant == 4 {
		g.Output("old", op.Transpose(cache, 0, 1))
	}
	return g
}

// TestRunIntoOverInput decodes random sequences with an output over the cache, and compares them with runs that copy
// the cache.
func TestRunIntoOverInput(t *testing.T) {
	const positions = 70
	for variant := range 4 {
		for _, threads := range []int{1, 2} {
			p, err := graphrun.Compile(ctx, decodeStep(variant, positions), graphrun.Options{Threads: threads})
			require.NoError(t, err)
			rng := rand.New(rand.NewPCG(uint64(variant), 9))
			shared, copied := eighths(2, positions, 8), eighths(2, positions, 8)
			sameValues(t, copied, shared, "the start")
			for step := range 40 {
				index := tensor.Zeros(tensor.Int64, 2, 1, 8)
				for b := range 2 {
					at := rng.IntN(positions)
					for e := range 8 {
						index.Set(tensor.IntScalar(int64(at)), b, 0, e)
					}
				}
				row := eighths(2, 1, 8)
				for e := range 16 {
					row.Set(tensor.FloatScalar(rng.NormFloat64()), e/8, 0, e%8)
				}
				in := map[string]*tensor.Tensor{"past": copied, "index": index, "row": row}
				want, err := p.Run(ctx, in)
				require.NoError(t, err)
				y := tensor.Zeros(tensor.Float32, 2, 1, 8)
				in["past"] = shared
				out := map[string]*tensor.Tensor{"y": y, "present": shared}
				require.NoError(t, p.RunInto(ctx, in, out))
				where := fmt.Sprintf("variant %d, %d threads, step %d", variant, threads, step)
				sameValues(t, want["y"], y, where)
				sameValues(t, want["present"], shared, where)
				copied = want["present"]
				if step == 39 && variant == 0 && threads == 1 && !testsize.Race { // the race detector empties pools
					require.Zero(t, testing.AllocsPerRun(20, func() { require.NoError(t, p.RunInto(ctx, in, out)) }))
				}
			}
		}
	}
}

// TestTensorScatterOverInput writes rows into a cache in place with ONNX's TensorScatter, and compares it with a run
// that copies the cache. The circular positions wrap around.
func TestTensorScatterOverInput(t *testing.T) {
	for _, mode := range []string{"linear", "circular"} {
		value := func(name string, dtype pb.DataType, dims ...int64) *pb.ValueInfoProto {
			shape := &pb.TensorShapeProto{}
			for _, n := range dims {
				shape.Dim = append(shape.Dim, &pb.Dimension{DimValue: &n})
			}
			return &pb.ValueInfoProto{Name: name,
				Type: &pb.TypeProto{TensorType: &pb.TensorType{ElemType: int32(dtype), Shape: shape}}}
		}
		g, err := graphrun.Loader{}.Read(ctx, bytes.NewReader(pb.Marshal(&pb.ModelProto{IrVersion: 10,
			OpsetImport: []*pb.OperatorSetIDProto{{Version: 24}},
			Graph: &pb.GraphProto{Name: "step",
				Node: []*pb.NodeProto{{OpType: "TensorScatter", Input: []string{"past", "rows", "at"},
					Output:    []string{"present"},
					Attribute: []*pb.AttributeProto{{Name: "mode", Type: pb.AttributeString, S: []byte(mode)}}}},
				Input: []*pb.ValueInfoProto{value("past", pb.Float, 2, 3, 6, 4), value("rows", pb.Float, 2, 3, 2, 4),
					value("at", pb.Int64, 2)},
				Output: []*pb.ValueInfoProto{{Name: "present"}}}})), "step.onnx")
		require.NoError(t, err)
		p, err := graphrun.Compile(ctx, g, graphrun.Options{Threads: 1})
		require.NoError(t, err)
		past, rows := eighths(2, 3, 6, 4), eighths(2, 3, 2, 4)
		for _, at := range [][]int64{{0, 4}, {3, 1}, {4, 4}} {
			if mode == "circular" {
				at[0]++ // 5 wraps
			}
			in := map[string]*tensor.Tensor{"past": past, "rows": rows, "at": tensor.Must(tensor.FromSlice(at, 2))}
			want, err := p.Run(ctx, in)
			require.NoError(t, err)
			require.NoError(t, p.RunInto(ctx, in, map[string]*tensor.Tensor{"present": past}))
			sameValues(t, want["present"], past, fmt.Sprint(mode, at))
		}
		in := map[string]*tensor.Tensor{"past": past, "rows": rows, "at": tensor.Must(tensor.FromSlice([]int64{1, 2}, 2))}
		out := map[string]*tensor.Tensor{"present": past}
		require.NoError(t, p.RunInto(ctx, in, out))
		if cacheBytes := past.Bytes(); cacheBytes <= p.Need().Arena {
			t.Errorf("the arena has %d bytes, so the cache of %d bytes may be copied", p.Need().Arena, cacheBytes)
		}
	}
}

// TestRunIntoOverInputRejected requires errors where an output cannot be written over an input.
func TestRunIntoOverInputRejected(t *testing.T) {
	p, err := graphrun.Compile(ctx, decodeStep(4, 5), graphrun.Options{})
	require.NoError(t, err)
	past := eighths(2, 5, 8)
	in := map[string]*tensor.Tensor{"past": past, "index": tensor.Zeros(tensor.Int64, 2, 1, 8), "row": eighths(2, 1, 8)}
	require.ErrorContains(t, p.RunInto(ctx, in, map[string]*tensor.Tensor{"present": past}), `shares memory with input "past"`)
	p, err = graphrun.Compile(ctx, decodeStep(0, 5), graphrun.Options{})
	require.NoError(t, err)
	require.ErrorContains(t, p.RunInto(ctx, in, map[string]*tensor.Tensor{"present": tensor.Must(past.View(tensor.Meta{DType: tensor.Float32,
		Shape: past.Shape, Strides: []int{8, 16, 1}}))}), `shares memory with input "past"`)
}
