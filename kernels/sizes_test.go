package kernels_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFormulas infers calls with symbolic sizes: results are formulas, and decisions of the op are guards.
func TestFormulas(t *testing.T) {
	for _, c := range []struct {
		op     string
		attrs  graph.Attrs
		in     []string // sizes with their hints: "N=2 3 H=8"
		want   string   // of the first result
		guards string
	}{
		{"sum", graph.Attrs{"dim": 1}, []string{"N=2 3 H=8"},
			"float32[N,H]@(Max(1, H),1)",
			""},
		{"mean", nil, []string{"N=2 3"},
			"float32[]@()",
			""},
		{"amax", graph.Attrs{"dim": []int{0}}, []string{"N=2 C=3"},
			"float32[C]@(1)",
			"Ne(N*C, 0)"},
		{"topk", graph.Attrs{"k": 2}, []string{"N=4 C=3"},
			"float32[N,2]@(2,1)",
			"Le(2, C)"},
		{"max_pool2d", graph.Attrs{"kernel_size": 3, "stride": 2, "padding": 1}, []string{"N=2 3 H=8 W=9"},
			"float32[N,3,(H + 1)//2,(W + 1)//2]@(3*Max(1, (W + 1)//2)*Max(1, (H + 1)//2),Max(1, (W + 1)//2)*Max(1, (H + " +
				"1)//2),Max(1, (W + 1)//2),1)",
			"Ne(H, 0); Ne(W, 0)"},
		{"max_pool2d", graph.Attrs{"kernel_size": 2, "ceil_mode": true}, []string{"N=2 3 H=7 8"},
			"float32[N,3,(H + 1)//2,4]@(12*Max(1, (H + 1)//2),4*Max(1, (H + 1)//2),4,1)",
			"Ne(H, 0)"},
		{"adaptive_avg_pool2d", graph.Attrs{"output_size": 1}, []string{"N=2 3 H=7 W=8"},
			"float32[N,3,1,1]@(3,1,1,1)",
			""},
		{"upsample_nearest2d", graph.Attrs{"scale_factors": []float64{2, 1.5}}, []string{"N=2 3 H=8 W=9"},
			"float32[N,3,2*H,W + W//2]@(3*Max(1, W + W//2)*Max(1, 2*H),Max(1, W + W//2)*Max(1, 2*H),Max(1, W + W//2),1)",
			"Le(1, H); Le(1, W)"},
		{"upsample_nearest2d", graph.Attrs{"scale_factors": []float64{2, 1.1}}, []string{"N=2 3 8 W=9"},
			"float32[N,3,16,W + W//10]@(48*Max(1, W + W//10),16*Max(1, W + W//10),Max(1, W + W//10),1)",
			"Le(1, W)"},
		{"cat", graph.Attrs{"dim": 1}, []string{"N=2 A=3", "M=2 B=4"},
			"float32[N,A + B]@(Max(1, A + B),1)",
			"Eq(M, N)"},
		{"stack", nil, []string{"N=2 3", "N=2 3"},
			"float32[2,N,3]@(3*Max(1, N),3,1)",
			""},
		{"pad", graph.Attrs{"pad": []int{1, 2}}, []string{"N=2 L=5"},
			"float32[N,L + 3]@(L + 3,1)",
			""},
		{"repeat", graph.Attrs{"repeats": []int{2, 3}}, []string{"N=2 L=5"},
			"float32[2*N,3*L]@(Max(1, 3*L),1)",
			""},
		{"roll", graph.Attrs{"shifts": 1, "dims": 0}, []string{"N=2 L=5"},
			"float32[N,L]@(Max(1, L),1)",
			"Ne(N*L, 0); Ne((-(1 % N)) % N, N); Lt((-(1 % N)) % N, Max(1, N))"},
		{"pixel_shuffle", graph.Attrs{"upscale_factor": 2}, []string{"N=2 C=8 H=3 2"},
			"float32[N,C//4,2*H,4]@(4*Max(1, 2*H)*Max(1, C//4),4*Max(1, 2*H),4,1)",
			"Eq(C % 4, 0)"},
		{"gather_nd", nil, []string{"N=4 C=3", "K=5 J=2 int64"},
			"float32[K]@(1)",
			"Eq(J, 2)"},
		{"index_select", graph.Attrs{"dim": 1}, []string{"N=4 C=3", "K=5 int64"},
			"float32[N,K]@(Max(1, K),1)",
			""},
		{"embedding", nil, []string{"V=100 16", "N=2 L=7 int64"},
			"float32[N,L,16]@(16*Max(1, L),16,1)",
			""},
		{"repeat_interleave", graph.Attrs{"repeats": 3, "dim": 0}, []string{"N=4 C=3"},
			"float32[3*N,C]@(Max(1, C),1)",
			""},
		{"_shape_as_tensor", nil, []string{"N=4 C=3"},
			"int64[2]@(1)",
			""},
	} {
		env := sym.NewEnv()
		var in []tensor.Type
		for _, text := range c.in {
			in = append(in, namedSizes(t, env, text))
		}
		op := kernels.Lookup(c.op)
		attrs, err := op.Schema.Decode(c.attrs, nil)
		require.NoError(t, err)
		call := &graph.Call{Attrs: attrs}
		for _, typ := range in {
			call.In = append(call.In, graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Type: typ}})
		}
		res, err := op.Infer(call)
		require.NoError(t, err, c.op)
		var guards []string
		for _, g := range env.Guards() {
			guards = append(guards, g.String())
		}
		assert.Equal(t, c.want, res[0].Type.String(), c.op)
		assert.Equal(t, c.guards, strings.Join(guards, "; "), c.op)
	}
}

func namedSizes(t *testing.T, env *sym.Env, text string) tensor.Type {
	d := tensor.Float32
	var shape []sym.Int
	for _, word := range strings.Fields(text) {
		if word == "int64" {
			d = tensor.Int64
			continue
		}
		name, number, named := strings.Cut(word, "=")
		if !named {
			number = name
		}
		var n int
		_, err := fmt.Sscan(number, &n)
		require.NoError(t, err)
		s := sym.Of(n)
		if named {
			s, err = env.Symbol(name, 0, math.MaxInt, n)
			require.NoError(t, err)
		}
		shape = append(shape, s)
	}
	return tensor.NewType(d, shape...)
}
