package reduce

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// channelNorm is a normalization y = (x-center)*scale + shift with a center, scale and shift for each channel of each
// sample (group_norm, instance_norm), for an operand [N, C, ...] of any layout. The center is the mean in the dtype of
// loops. It is subtracted first, because x*scale would cancel if the mean is many deviations away from 0.
type channelNorm struct {
	rows           int // rows of scales: 1, or N
	groups         int // groups of channels with common statistics, per row
	eps            float64
	given          bool // statistics are operands, not computed from the input
	weight, bias   int  // operands; -1 if omitted
	mean, variance int
}

// normLoops returns the dtype in which a normalization of d computes.
func normLoops(d tensor.DType) tensor.DType { return d.OpMath() }

// compile builds three phases: statistics, scales, results. Statistics are computed in float64; scales are rounded
// once, to the dtype of loops.
func (s *channelNorm) compile(c *graph.Call) (*graph.Kernel, error) {
	in := c.Meta(0)
	if in.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	loops := normLoops(in.DType)
	channels := in.Shape[1]
	pairs := s.rows * channels
	side := tensor.Meta{DType: loops, Shape: in.Shape, Strides: make([]int, in.Rank())}
	if side.Strides[1] = 1; s.rows > 1 {
		side.Strides[0] = channels
	}
	p := newLinePlan(in, -1, lineColumns, c.Out[0], []tensor.Meta{side}, in.DType, loops, 1)
	centerAt := 2 * kit.AlignUp(8*pairs)
	each := kit.AlignUp(pairs * loops.Size())
	at := affineAt{center: centerAt, scale: centerAt + each, shift: centerAt + 2*each}
	end := at.shift + each
	var k *graph.Kernel
	if loops == tensor.Float32 {
		k = p.kernel(0, affineUnit[float32](p, at))
	} else {
		k = p.kernel(0, affineUnit[float64](p, at))
	}
	k.Scratch = end
	items := s.rows * s.groups
	perChunk := max(1, machine.FunctionGrain*s.groups/channels)
	scales := graph.Phase{Chunks: (items + perChunk - 1) / perChunk, Run: func(m *graph.Mem, chunk int) error {
		for g := chunk * perChunk; g < min((chunk+1)*perChunk, items); g++ {
			s.scales(c, m, g, loops, at)
		}
		return nil
	}}
	k.Phases = append([]graph.Phase{scales}, k.Phases...)
	if s.given {
		return k, nil
	}
	return s.statistics(c, k, end)
}

// affineAt has the offsets of centers, scales and shifts in scratch memory.
type affineAt struct{ center, scale, shift int }

// statistics adds the phases that compute the variance and the mean of each channel of a row. Groups of channels are
// merged afterwards, so that the loops can run across channels if these are contiguous.
func (s *channelNorm) statistics(c *graph.Call, k *graph.Kernel, end int) (*graph.Kernel, error) {
	in := c.Meta(0)
	channels, pairs := in.Shape[1], s.rows*in.Shape[1]
	mask := make([]bool, in.Rank())
	for d := range mask {
		mask[d] = d > 1 || d == 0 && s.rows == 1
	}
	out := tensor.New(tensor.Float64, s.rows, channels)
	if mask[0] {
		out = tensor.New(tensor.Float64, channels)
	}
	n := float64(folds.Count(in.Shape, mask))
	r, err := folds.NewReducer(in, mask, []tensor.Meta{out, out}, false, in.DType, varFold(in.DType, n, false, true))
	if err != nil {
		return nil, err
	}
	k.Scratch, k.Worker = end+r.Scratch(), max(k.Worker, r.Worker())
	var phases []graph.Phase
	for phase := range r.Phases() {
		phases = append(phases, graph.Phase{Chunks: r.Chunks(phase), Run: func(m *graph.Mem, chunk int) error {
			ptrs := [3]unsafe.Pointer{unsafe.Pointer(&m.Scratch[0]), unsafe.Pointer(&m.Scratch[kit.AlignUp(8*pairs)]), m.Ptrs[1]}
			return r.Run(phase, chunk, ptrs[:], m.Scratch[end:], m.Worker)
		}})
	}
	k.Phases = append(phases, k.Phases...)
	return k, nil
}

// scales computes the centers, scales and shifts of the channels of group g, numbered across all rows. A shift includes
// the rounding error of the center.
func (s *channelNorm) scales(c *graph.Call, m *graph.Mem, g int, loops tensor.DType, to affineAt) {
	channels := c.Meta(0).Shape[1]
	// Values are passed in the memory of the worker, because a conversion takes their address, which would allocate them.
	v := unsafe.Slice((*float64)(unsafe.Pointer(&m.Worker[0])), 1)
	at := func(operand, i int, otherwise float64) float64 {
		if operand < 0 {
			return otherwise
		}
		t := c.Meta(operand)
		tensor.Converter(tensor.Float64, t.DType)(unsafe.Pointer(&v[0]),
			unsafe.Add(m.Ptrs[1+operand], i*t.Strides[0]*t.DType.Size()), 0, 0, 1)
		return v[0]
	}
	put := func(at int, x float64) {
		if loops == tensor.Float32 {
			*(*float32)(unsafe.Pointer(&m.Scratch[at])) = float32(x)
			return
		}
		*(*float64)(unsafe.Pointer(&m.Scratch[at])) = x
	}
	size, n := loops.Size(), channels/s.groups
	var mean, variance float64
	if !s.given {
		mean, variance = groupMoments(m.Scratch, s.rows*channels, g*n, n)
	}
	for i := g * n; i < (g+1)*n; i++ {
		ch := i % channels
		if s.given {
			mean, variance = at(s.mean, ch, 0), at(s.variance, ch, 1)
		}
		scale := at(s.weight, ch, 1) / math.Sqrt(variance+s.eps)
		center := mean
		if loops == tensor.Float32 {
			center = float64(float32(mean))
		}
		put(to.center+i*size, center)
		put(to.scale+i*size, scale)
		put(to.shift+i*size, at(s.bias, ch, 0)-(mean-center)*scale)
	}
}

// groupMoments merges the variances and means of n channels of equal size, from pair begin on.
func groupMoments(scratch []byte, pairs, begin, n int) (mean, variance float64) {
	variances := unsafe.Slice((*float64)(unsafe.Pointer(&scratch[0])), pairs)[begin : begin+n]
	means := unsafe.Slice((*float64)(unsafe.Pointer(&scratch[kit.AlignUp(8*pairs)])), pairs)[begin : begin+n]
	for _, x := range means {
		mean += x
	}
	mean /= float64(n)
	for i, x := range means {
		variance += variances[i] + (x-mean)*(x-mean)
	}
	return mean, variance / float64(n)
}

// affineUnit returns the computation of (x-center)*scale + shift for a run along the fastest axis, within one channel
// or across neighbouring channels.
func affineUnit[T float32 | float64](p *linePlan, from affineAt) func(r lineRoom, in, out unsafe.Pointer, n int) error {
	k := p.kept[0]
	return func(r lineRoom, in, out unsafe.Pointer, n int) error {
		x := unsafe.Slice((*T)(p.ld.Run(r.buf, r.tmp, in, k.In, n)), n)
		at := p.target(r.tmp, out, k.Out[0], n)
		y := unsafe.Slice((*T)(at), n)
		center := unsafe.Pointer(&r.mem.Scratch[from.center+r.side])
		scale := unsafe.Pointer(&r.mem.Scratch[from.scale+r.side])
		shift := unsafe.Pointer(&r.mem.Scratch[from.shift+r.side])
		switch {
		case k.Out[1] == 0 || n == 1:
			scaleBy(y, x, *(*T)(center), *(*T)(scale), *(*T)(shift))
		case k.Out[1] == p.ld.Size:
			c, a, b := unsafe.Slice((*T)(center), n), unsafe.Slice((*T)(scale), n), unsafe.Slice((*T)(shift), n)
			for i, v := range x {
				y[i] = (v-c[i])*a[i] + b[i]
			}
		default:
			for i, v := range x {
				d := v - *(*T)(unsafe.Add(center, i*k.Out[1]))
				y[i] = d**(*T)(unsafe.Add(scale, i*k.Out[1])) + *(*T)(unsafe.Add(shift, i*k.Out[1]))
			}
		}
		p.written(at, out, k.Out[0], n)
		return nil
	}
}

// scaleBy computes (x-c)*a + b.
func scaleBy[T float32 | float64](y, x []T, c, a, b T) {
	for len(x) >= 4 && len(y) >= 4 {
		y[0], y[1], y[2], y[3] = (x[0]-c)*a+b, (x[1]-c)*a+b, (x[2]-c)*a+b, (x[3]-c)*a+b
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		y[i] = (v-c)*a + b
	}
}

// normDTypes checks the dtypes of parameters: that of the operand, or all float32 for a 16-bit operand.
func normDTypes(c *graph.Call, params ...int) error {
	d, first := c.Type(0).DType, tensor.Invalid
	for _, i := range params {
		if p := c.Type(i).DType; c.Has(i) && (first == tensor.Invalid || p == d) {
			first = p
			if p == d {
				break
			}
		}
	}
	want := d
	if d.IsReducedFloat() && first == tensor.Float32 {
		want = first
	}
	for _, i := range params {
		if c.Has(i) && c.Type(i).DType != want {
			return fmt.Errorf("expected scalar type %s but found %s", d.TorchName(), c.Type(i).DType.TorchName())
		}
	}
	return nil
}

// normReference defines y = (x-mean)/sqrt(var+eps)*weight+bias. group maps an index to its statistics, param to its
// element of weight and bias. Without given statistics they are those of x.
func normReference(t *tensor.Tensor, eps float64, group func(index []int) int, param func(index []int) int, weight,
	bias, mean, variance *tensor.Tensor) *tensor.Tensor {
	sum, m2, n := map[int]float64{}, map[int]float64{}, map[int]float64{}
	each := func(f func(index []int, g int, x float64)) {
		kit.EachIndex(t.Shape, func(index []int) { f(index, group(index), t.At(index...).Float()) })
	}
	each(func(_ []int, g int, x float64) { sum[g] += x; n[g]++ })
	each(func(_ []int, g int, x float64) { d := x - sum[g]/n[g]; m2[g] += d * d })
	out := tensor.Zeros(t.DType, t.Shape...)
	at := func(p *tensor.Tensor, i int, otherwise float64) float64 {
		if p == nil {
			return otherwise
		}
		return p.CopyTo(tensor.New(tensor.Float64, p.Shape...)).At(kit.Unravel(i, p.Shape)...).Float()
	}
	each(func(index []int, g int, x float64) {
		mu, v := sum[g]/n[g], m2[g]/n[g]
		if mean != nil {
			mu, v = at(mean, param(index), 0), at(variance, param(index), 0)
		}
		y := (x - mu) / math.Sqrt(v+eps)
		out.Set(tensor.FloatScalar(y*at(weight, param(index), 1)+at(bias, param(index), 0)), index...)
	})
	return out
}

// checkFeatures checks the parameters as _batch_norm_impl_index does.
func checkFeatures(c *graph.Call, features sym.Int, training bool) error {
	for _, p := range []struct {
		operand int
		name    string
	}{{3, "running_mean"}, {4, "running_var"}, {1, "weight"}, {2, "bias"}} {
		switch {
		case c.Has(p.operand):
			t := c.Type(p.operand)
			if n := t.Numel(); n.Ne(features).Holds() {
				return fmt.Errorf("%s should contain %v elements not %v", p.name, features, n)
			}
			if t.Rank() != 1 {
				return fmt.Errorf("%s must have 1 dimension, got %d", p.name, t.Rank())
			}
		case p.operand >= 3 && !training:
			return errors.New(p.name + " must be defined in evaluation mode")
		}
	}
	return nil
}

// batchNormDTypes combines check_mixed_data_type and the check of the kernels.
func batchNormDTypes(c *graph.Call) error {
	d := c.Type(0).DType
	first := tensor.Invalid
	for i := 4; i > 0; i-- {
		if c.Has(i) {
			first = c.Type(i).DType
		}
	}
	if first == tensor.Invalid || first == d {
		return normDTypes(c, 1, 2, 3, 4)
	}
	for i := 1; i < 5; i++ {
		if c.Has(i) && c.Type(i).DType != tensor.Float32 {
			return errors.New("mixed dtype (CPU): expect parameter to have scalar type of Float")
		}
	}
	if !d.IsReducedFloat() {
		return errors.New("mixed dtype (CPU): expect input to have scalar type of BFloat16")
	}
	return nil
}

// emptyBatchNorm returns the result for no elements: PyTorch clones the input, times and plus the first element of
// weight and bias, and ignores the other operands.
func emptyBatchNorm(c *graph.Call, m tensor.Type) (tensor.Type, error) {
	m.Offset = sym.Int{}
	if !m.IsNonOverlappingAndDense() {
		m.Strides = tensor.DenseStridesOf(m.Shape, m.Strides)
	}
	for i := 1; i < 3; i++ {
		if !c.Has(i) {
			continue
		}
		p := c.Type(i)
		if p.Rank() == 0 {
			return m, errors.New("select() cannot be applied to a 0-dim tensor.")
		}
		if kit.Is(p.Shape[0], 0) {
			return m, errors.New("select(): index 0 out of range for tensor of size " + tensor.Sizes(p.Shape) +
				" at dimension 0")
		}
		r, err := rule.Binary(rule.Undefined(), rule.OfType(m), rule.OfType(tensor.NewType(p.DType))).Rule()
		if err != nil {
			return m, err
		}
		m = r.Type(0)
	}
	return m, nil
}
