package onnx

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/tensor"
)

// addingLoop returns a nested loop of unknown length that adds its carried values.
func addingLoop(values, adds, around int) *pb.GraphProto {
	var body func(level int) *pb.GraphProto
	body = func(level int) *pb.GraphProto {
		g := &pb.GraphProto{Input: infos(info(fmt.Sprint("i", level), tInt64), info(fmt.Sprint("c", level), tBool))}
		now := make([]string, values)
		for k := range now {
			now[k] = fmt.Sprint("in", level, "_", k)
			g.Input = append(g.Input, info(now[k], tFloat))
		}
		if level > 0 {
			out := make([]string, values)
			for k := range out {
				out[k] = fmt.Sprint("inner", level, "_", k)
			}
			g.Node = append(g.Node, node1("Loop", append(names("trips", ""), now...), out, attrGraph("body", body(level-1))))
			now = slices.Clone(out)
		}
		for k := range adds {
			sum := fmt.Sprint("sum", level, "_", k)
			g.Node = append(g.Node, node1("Add", names(now[k%values], now[(k+1)%values]), names(sum)))
			now[k%values] = sum
		}
		g.Node = append(g.Node, node1("Identity", names(fmt.Sprint("c", level)), names(fmt.Sprint("go", level))))
		g.Output = infos(info(fmt.Sprint("go", level), tBool))
		for _, name := range now {
			g.Output = append(g.Output, info(name, tFloat))
		}
		return g
	}
	p := &pb.GraphProto{Input: infos(info("trips", tInt64))}
	in, out := names("trips", ""), names()
	for k := range values {
		in, out = append(in, fmt.Sprint("x", k)), append(out, fmt.Sprint("y", k))
		p.Input = append(p.Input, info(in[k+2], tFloat, 3, 4))
		p.Output = append(p.Output, info(out[k], tFloat))
	}
	p.Node = []*pb.NodeProto{node1("Loop", in, out, attrGraph("body", body(around)))}
	return p
}

// TestLoopsImportInLinearTime imports loops whose inference once took time exponential in the number of additions.
func TestLoopsImportInLinearTime(t *testing.T) {
	for _, c := range []struct{ values, adds, around int }{{2, 4, 0}, {2, 40, 0}, {2, 6, 2}, {20, 40, 0}} {
		in := map[string]*tensor.Tensor{"trips": i64(nil, 1)}
		want := make([]float32, c.values)
		for k := range c.values {
			want[k] = float32(k + 1)
			list := make([]float32, 12)
			for i := range list {
				list[i] = want[k]
			}
			in[fmt.Sprint("x", k)] = f32([]int{3, 4}, list...)
		}
		for range c.around + 1 {
			for k := range c.adds {
				want[k%c.values] += want[(k+1)%c.values]
			}
		}
		out := run(t, model(17, addingLoop(c.values, c.adds, c.around)), in)
		for k, x := range want {
			require.Equal(t, x, floatsOf(t, out[fmt.Sprint("y", k)])[0], "%+v, value %d", c, k)
		}
	}
}
