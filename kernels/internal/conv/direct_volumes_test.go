//go:build linux || darwin

package conv_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// drawVolume draws a convolution of volumes. Windows have one or several planes and may reach far outside the volume at
// all sides; blocks have several vectors of channels and remainders.
func drawVolume(r *rand.Rand) (x, w []int, at graph.Attrs) {
	pick := func(n ...int) int { return n[r.IntN(len(n))] }
	g := pick(1, 1, 1, 2, 3)
	c := pick(1, 2, 3, 8, 17, 40)
	if g > 1 {
		c = max(c, 2)
	}
	x, w = []int{pick(1, 1, 2), g * c}, []int{g * pick(2, 7, 16, 33, 48), c}
	var stride, dilation, begin, end []int
	pointwise := r.IntN(5) == 0
	for d := range 3 {
		k, dl, p, q := pick(1, 2, 3, 5), pick(1, 1, 2), r.IntN(4), r.IntN(4)
		s := pick(1, 1, 2)
		if pointwise {
			k, p, q, s = 1, 0, 0, 1
		}
		x, w = append(x, max(1, (k-1)*dl+1-p-q)+[3]int{r.IntN(4), r.IntN(5), r.IntN(20)}[d]), append(w, k)
		stride, dilation, begin, end = append(stride, s), append(dilation, dl), append(begin, p), append(end, q)
	}
	return x, w, graph.Attrs{"stride": stride, "padding": append(begin, end...), "dilation": dilation, "groups": g}
}

// TestDirectVolumes compares both direct convolutions of volumes with the definition, with inputs between pages that
// cannot be accessed.
func TestDirectVolumes(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	r := rand.New(rand.NewPCG(61, 1))
	for i := range 120 {
		name := []string{"direct_ndhwc", "direct_ncdhw"}[i%2]
		d := []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float64, tensor.Float16}[i/2%4]
		xs, ws, at := drawVolume(r)
		format := []tensor.MemoryFormat{tensor.ChannelsLast3d, tensor.Contiguous}[i%2]
		m, err := tensor.NewFormat(d, xs, format)
		require.NoError(t, err)
		bytes := m.Numel() * d.Size()
		room := jittest.Guarded(t, bytes)
		if i/4%2 == 0 {
			room = room[len(room)-bytes:]
		}
		x := tensor.Must(tensor.FromStorage(m, tensor.StorageOf(room)))
		in := []*tensor.Tensor{x, tensor.Empty(tensor.New(d, ws...)), tensor.Empty(tensor.New(d, ws[0]))}
		if r.IntN(3) == 0 {
			in[2] = nil
		}
		for _, v := range in {
			if v != nil {
				kerneltest.FillRandom(r, v)
			}
		}
		p, err := kerneltest.NewProductCall("conv3d", at, in, []int{1}[i/8%2:]...)
		require.NoError(t, err)
		k := slices.IndexFunc(p.Op.Impls, func(m graph.Impl) bool { return m.Name == name })
		walks := p.Op.Impls[k].Walks(p.Call, nil)
		if len(walks) == 0 {
			t.Fatalf("%s does not compute %v by %v, %v", name, xs, ws, at)
		}
		p.Call.Impl, p.Call.Walk, p.Call.Out[0] = &p.Op.Impls[k], walks[0], walks[0].ResultLayout(0, p.Call.Out[0])
		p.Check(t, tensor.Numel(ws[1:]))
	}
}
