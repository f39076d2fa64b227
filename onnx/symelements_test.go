package onnx

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// TestSizesThatLeaveAnInt converts models that compute sizes of more than 64 bits. A product once wrapped around.
func TestSizesThatLeaveAnInt(t *testing.T) {
	scaled := func(by ...int64) *pb.ModelProto {
		return model(13, &pb.GraphProto{
			Initializer: []*pb.TensorProto{int64s("by", []int64{2}, by...), floats("one", []int64{1}, 1)},
			Node: []*pb.NodeProto{node1("Shape", names("x"), names("shape")), node1("Mul", names("shape", "by"), names("z0")),
				node1("Expand", names("one", "z0"), names("z"))},
			Input: infos(info("x", tFloat, "N", 4)), Output: infos(info("z", tFloat))})
	}
	_, err := toGraph(scaled(1, 1<<62), Options{})
	require.ErrorContains(t, err, "4 * 4611686018427387904 does not fit 64 bits")
	_, err = toGraph(scaled(1<<62, 1), Options{})
	require.ErrorContains(t, err, `expression "4611686018427387904*N"`)
}

// sizeMaker builds random models that compute with the sizes of x.
type sizeMaker struct {
	r     *rand.Rand
	p     *pb.GraphProto
	ints  []string // 0-dim integers
	bools []string
	count int
}

func (m *sizeMaker) add(op string, in []string, attrs ...*pb.AttributeProto) string {
	m.count++
	out := fmt.Sprint("v", m.count)
	m.p.Node = append(m.p.Node, node1(op, in, names(out), attrs...))
	return out
}

func (m *sizeMaker) number(n int64) string {
	m.count++
	name := fmt.Sprint("c", m.count)
	m.p.Initializer = append(m.p.Initializer, int64s(name, nil, n))
	return name
}

func (m *sizeMaker) pick(list []string) string { return list[m.r.IntN(len(list))] }

func (m *sizeMaker) vector(list ...string) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = m.add("Unsqueeze", names(s, "at"))
	}
	return m.add("Concat", parts, attrInt("axis", 0))
}

// step adds one node that makes an integer or a truth value.
func (m *sizeMaker) step() {
	a, b := m.pick(m.ints), m.pick(m.ints)
	positive := func() string { return m.number(1 + m.r.Int64N(5)) }
	switch k := m.r.IntN(13); k {
	case 0, 1, 2:
		m.ints = append(m.ints, m.add([]string{"Add", "Sub", "Mul"}[k], names(a, b)))
	case 3:
		m.ints = append(m.ints, m.add("Div", names(a, positive())))
	case 4:
		m.ints = append(m.ints, m.add("Mod", names(a, positive())))
	case 5:
		m.ints = append(m.ints, m.add("Mod", names(a, positive()), attrInt("fmod", 1)))
	case 6:
		m.ints = append(m.ints, m.add(m.pick(names("Min", "Max")), names(a, b)))
	case 7:
		m.ints = append(m.ints, m.add(m.pick(names("Neg", "Abs", "Identity")), names(a)))
	case 8:
		m.bools = append(m.bools, m.add(m.pick(names("Equal", "Less", "Greater")), names(a, b)))
	case 9:
		op := m.pick(names("And", "Or", "Xor"))
		m.bools = append(m.bools, m.add(op, names(m.pick(m.bools), m.add("Not", names(m.pick(m.bools))))))
	case 10:
		m.ints = append(m.ints, m.add("Where", names(m.pick(m.bools), a, b)))
	case 11:
		op := m.pick(names("ReduceProd", "ReduceMax", "ReduceMin"))
		v := m.vector(a, b, m.pick(m.ints))
		v = m.add("Slice", names(v, "at", "two"))
		m.ints = append(m.ints, m.add(op, names(v), attrInts("axes", 0), attrInt("keepdims", 0)))
	case 12:
		f := m.add("Cast", names(m.add("Abs", names(a))), attrInt("to", int64(tFloat)))
		f = m.add(m.pick(names("Mul", "Div")), names(f, m.pick(names("half", "three"))))
		f = m.add(m.pick(names("Floor", "Ceil")), names(f))
		m.ints = append(m.ints, m.add("Cast", names(f), attrInt("to", int64(tInt64))))
	}
}

// sizesModel computes with the sizes N, M and 3 of x. It uses the results as values, as shapes and as the condition of
// an If.
func sizesModel(r *rand.Rand) *pb.ModelProto {
	m := &sizeMaker{r: r, p: &pb.GraphProto{Input: infos(info("x", tFloat, "N", "M", 3)),
		Initializer: []*pb.TensorProto{int64s("at", []int64{1}, 0), int64s("two", []int64{1}, 2), floats("half", nil, 0.5),
			floats("three", nil, 3)}}}
	shape := m.add("Shape", names("x"))
	for i := range int64(3) {
		m.ints = append(m.ints, m.add("Gather", names(shape, m.number(i))))
	}
	m.ints = append(m.ints, m.number(4))
	m.bools = append(m.bools, m.add("Less", names(m.ints[0], m.ints[1])))
	for range 4 + r.IntN(8) {
		m.step()
	}
	small := func(s string) string { return m.add("Mod", names(m.add("Abs", names(s)), m.number(7))) }
	last := m.ints[len(m.ints)-1]
	values := m.vector(last, m.pick(m.ints), small(last))
	zeros := m.add("ConstantOfShape", names(m.vector(small(last), small(m.pick(m.ints)))))
	count := m.add("Range", names(m.number(0), small(last), m.number(1)))
	yes := branchOf("a", node1("ReduceSum", names("x"), names("a"), attrInt("keepdims", 0)))
	no := branchOf("b", node1("ReduceMean", names(zeros), names("b"), attrInt("keepdims", 0)))
	chosen := m.add("If", names(m.bools[len(m.bools)-1]), attrGraph("then_branch", yes), attrGraph("else_branch", no))
	full := m.add("Expand", names("x", m.vector(small(last), m.number(1), m.number(1), m.number(1))))
	m.p.Node = append(m.p.Node, node1("Identity", names(values), names("values")),
		node1("Identity", names(zeros), names("zeros")), node1("Identity", names(count), names("count")),
		node1("Identity", names(chosen), names("chosen")), node1("Identity", names(full), names("full")))
	m.p.Output = infos(info("values", tInt64, nil), info("zeros", tFloat, nil, nil), info("count", tInt64, nil),
		info("chosen", tFloat), info("full", tFloat, nil, nil, nil, nil))
	return model(12, m.p)
}

// TestSizeArithmetic compares a model with symbolic sizes, and the graph file that it is converted to, with the model
// converted for fixed sizes, which are computed as numbers.
func TestSizeArithmetic(t *testing.T) {
	models, expressions := testsize.Of(10, 40), 0
	for seed := range models {
		m := sizesModel(rand.New(rand.NewPCG(uint64(seed), 1)))
		for i := range m.Graph.Node { // before operator set 13 axes are attributes
			if n := m.Graph.Node[i]; n.OpType == "Unsqueeze" {
				n.Input, n.Attribute = n.Input[:1], []*pb.AttributeProto{attrInts("axes", 0)}
			}
		}
		g, err := toGraph(m, Options{})
		require.NoError(t, err, seed)
		if !g.Dynamic() {
			expressions++
		}
		again := kept(t, g)
		for _, s := range [][2]int{{2, 2}, {1, 5}, {6, 1}, {0, 3}, {17, 9}} {
			in := map[string]*tensor.Tensor{"x": ramp(s[0], s[1], 3)}
			fixed, err := toGraph(m, Options{Shapes: map[string][]int{"x": in["x"].Shape}})
			require.NoError(t, err, seed)
			want, err := execute(fixed, in)
			require.NoError(t, err, seed)
			for _, g := range []*graph.Graph{g, again} {
				require.NoError(t, g.Bind(map[string]int{"N": s[0], "M": s[1]}), "seed %d, sizes %v", seed, s)
				got, err := execute(g, in)
				require.NoError(t, err, "seed %d, sizes %v", seed, s)
				for name := range want {
					require.NoError(t, compareScaled(got[name], want[name], 0), "seed %d, sizes %v, %s", seed, s, name)
				}
			}
		}
	}
	require.Greater(t, expressions, models/2, "most of it is expressions")
}
