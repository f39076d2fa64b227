package onnx

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// dimOf is dimension d of an input.
type dimOf struct {
	input string
	d     int
}

// oneNode is a case with all operands as inputs.
type oneNode struct {
	vector
	proto pb.ModelProto
	node  *pb.NodeProto
	types map[string]int32
	hints []int
}

// at returns the outputs if the dims of a group have count times their size. If open is set, the model declares them as
// the symbol n.
func (c oneNode) at(group []dimOf, count int, open bool) (out map[string]*tensor.Tensor, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("PANIC %v", r)
		}
	}()
	g := *c.proto.Graph
	m := c.proto
	m.Graph = &g
	w := c.vector
	w.in = maps.Clone(c.in)
	g.Input = slices.Clone(g.Input)
	g.Initializer = slices.Clone(g.Initializer)
	size := 0
	for _, at := range group {
		x := w.in[at.input]
		size = count * c.in[at.input].Shape[at.d]
		w.in[at.input] = repeated(x, at.d, count)
	}
	for i, p := range g.Initializer {
		if x := w.in[p.Name]; x != nil {
			q := *p
			q.RawData = x.Contiguous().Storage().Bytes()
			q.Dims = nil
			for _, s := range x.Shape {
				q.Dims = append(q.Dims, int64(s))
			}
			q.FloatData, q.Int32Data, q.Int64Data, q.DoubleData, q.Uint64Data = nil, nil, nil, nil, nil
			g.Initializer[i] = &q
			delete(w.in, p.Name)
		}
	}
	for i, p := range g.Input {
		x := w.in[p.Name]
		if x == nil {
			continue
		}
		dims := make([]any, x.Rank())
		for d, s := range x.Shape {
			if dims[d] = s; open && slices.Contains(group, dimOf{p.Name, d}) {
				dims[d] = "n"
			}
		}
		g.Input[i] = info(p.Name, pb.DataType(p.TensorType().ElemType), dims...)
	}
	parsed, err := Parse(pb.Marshal(&m), "")
	if err != nil {
		return nil, err
	}
	graph, err := parsed.Graph(Options{})
	if err != nil {
		return nil, err
	}
	if open && len(graph.Symbols) > 0 {
		bind := map[string]int{}
		for name := range graph.Symbols {
			if bind[name] = size; name != "n" {
				return nil, fmt.Errorf("symbol %s", name)
			}
		}
		if err := graph.Bind(bind); err != nil {
			return nil, err
		}
	}
	return execute(graph, w.in)
}

// repeated repeats x count times along dimension d.
func repeated(x *tensor.Tensor, d, count int) *tensor.Tensor {
	shape := slices.Clone(x.Shape)
	shape[d] *= count
	out := tensor.Zeros(x.DType, shape...)
	index := make([]int, len(shape))
	for range out.Numel() {
		from := slices.Clone(index)
		from[d] %= x.Shape[d]
		out.Set(x.At(from...), index...)
		for i := len(index) - 1; i >= 0; i-- {
			if index[i]++; index[i] < shape[i] {
				break
			}
			index[i] = 0
		}
	}
	return out
}

// group returns the least set of dims of the same size, with dim first, that can be doubled.
func (c oneNode) group(first dimOf) ([]dimOf, map[string]*tensor.Tensor) {
	var others []dimOf
	size := c.in[first.input].Shape[first.d]
	for _, name := range slices.Sorted(maps.Keys(c.in)) {
		for d, s := range c.in[name].Shape {
			if at := (dimOf{name, d}); s == size && at != first {
				others = append(others, at)
			}
		}
	}
	if len(others) > 9 {
		others = others[:9]
	}
	masks := make([]int, 1<<len(others))
	for i := range masks {
		masks[i] = i
	}
	slices.SortStableFunc(masks, func(a, b int) int { return popcount(a) - popcount(b) })
	for _, mask := range masks {
		group := []dimOf{first}
		for i, o := range others {
			if mask>>i&1 > 0 {
				group = append(group, o)
			}
		}
		if out, err := c.at(group, 7, false); err == nil {
			return group, out
		}
	}
	return nil, nil
}

func popcount(x int) int {
	n := 0
	for ; x > 0; x &= x - 1 {
		n++
	}
	return n
}

func TestSizesOfZero(t *testing.T) {
	log, _ := os.Create("/tmp/sz-r2.txt")
	defer log.Close()
	covered := map[string]int{}
	missing := map[string]bool{}
	for _, v := range vectors(t) {
		if only := os.Getenv("ONLY"); only != "" && !strings.Contains(v.name, only) {
			continue
		}
		var proto pb.ModelProto
		require.NoError(t, pb.Unmarshal(v.model, &proto), v.name)
		if len(proto.Graph.Node) != 1 || slices.Contains(slices.Collect(maps.Values(v.texts)), true) {
			continue
		}
		c := oneNode{vector: v, proto: proto, node: proto.Graph.Node[0]}
		base, err := c.at(nil, 1, false)
		if err != nil {
			fmt.Fprintf(log, "BASE %s: %v\n", v.name, err)
			continue
		}
		missing[c.node.OpType] = true
		seen := map[string]bool{}
		for _, in := range proto.Graph.Input {
			if v.in[in.Name] == nil {
				continue
			}
			for d, s := range v.in[in.Name].Shape {
				if s == 0 {
					continue
				}
				first := dimOf{in.Name, d}
				if seen[fmt.Sprint(first)] {
					continue
				}
				group, doubled := c.group(first)
				if group == nil {
					fmt.Fprintf(log, "FIXED %s %v\n", v.name, first)
					continue
				}
				for _, g := range group {
					seen[fmt.Sprint(g)] = true
				}
				covered[c.node.OpType]++
				var outs [2]map[string]*tensor.Tensor
				for i, open := range []bool{false, true} {
					withHints(t, s, 2*s, 3*s)
					out, err := c.at(group, 0, open)
					outs[i] = out
					if err != nil {
						fmt.Fprintf(log, "ERR %s %v open=%v: %v\n", v.name, group, open, err)
						continue
					}
					for name, x := range out {
						want := slices.Clone(base[name].Shape)
						for k := range want {
							if k < len(doubled[name].Shape) {
								want[k] -= (doubled[name].Shape[k] - want[k]) / 6
							}
						}
						if !slices.Equal(x.Shape, want) {
							fmt.Fprintf(log, "SHAPE %s %v open=%v: got %v want %v\n", v.name, group, open, x.Shape, want)
						}
						if x.Numel() > 0 {
							fmt.Fprintf(log, "VALUES %s %v open=%v: %v %v\n", v.name, group, open, x.Shape, float64sOf(x)[:min(3, x.Numel())])
						}
					}
				}
			}
		}
	}
	for k := range missing {
		if covered[k] == 0 {
			fmt.Fprintln(log, "UNCOVERED", k)
		}
	}
	t.Log(len(covered), len(missing))
}
