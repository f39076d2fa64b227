package kernels

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

type nllLossAttrs struct {
	Reduction   int `attr:"reduction" default:"1" doc:"0: the loss of each target; 1: their weighted mean; 2: their sum"`
	IgnoreIndex int `attr:"ignore_index" default:"-100" doc:"target that does not count"`
}

type crossEntropyAttrs struct {
	Reduction   int     `attr:"reduction" default:"1" doc:"0: the loss of each target; 1: their weighted mean; 2: their sum"`
	IgnoreIndex int     `attr:"ignore_index" default:"-100" doc:"target that does not count"`
	Smoothing   float64 `attr:"label_smoothing" default:"0" doc:"share of every class in the targets; only 0 is served"`
}

// NllLoss is the negative of the target's element; CrossEntropyLoss that of the logarithm
// of the softmax.
var (
	NllLoss          = nllLossOp("nll_loss", "Takes minus the element of the target class, times its weight: self [n, c, ...] or [c], target int64 [n, ...] and weight [c].", false, func(a *nllLossAttrs) (int, int, float64) { return a.Reduction, a.IgnoreIndex, 0 })
	CrossEntropyLoss = nllLossOp("cross_entropy_loss", "Takes minus the logarithm of the softmax at the target class, times its weight: self [n, c, ...] or [c], target int64 [n, ...] and weight [c].", true, func(a *crossEntropyAttrs) (int, int, float64) { return a.Reduction, a.IgnoreIndex, a.Smoothing })
)

// nllLoss holds the sizes of a call: of n samples, inner targets each.
type nllLoss struct {
	n, classes, inner int
	reduction, ignore int
	entropy           bool
}

func nllLossOp[A any](name, doc string, entropy bool, read func(a *A) (reduction, ignore int, smoothing float64)) *graph.Op {
	of := func(c *graph.Call) (*nllLoss, error) {
		l := &nllLoss{entropy: entropy}
		var smoothing float64
		if l.reduction, l.ignore, smoothing = read(attrs[A](c)); smoothing != 0 {
			return nil, errors.New(name + ": label_smoothing other than 0 is not served")
		}
		return l, l.check(name, c)
	}
	f := func(shape ...int) tensor.Meta { return tensor.New(tensor.Float32, shape...) }
	return define[A](graph.Op{
		Name: name, Doc: doc,
		Params: []graph.Param{self, {Name: "target", Below: classesOfSelf}, optWeight},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			l, err := of(c)
			if err != nil {
				return nil, err
			}
			out := tensor.New(c.Meta(0).DType)
			if l.reduction == 0 {
				out = tensor.New(out.DType, c.Meta(1).Shape...)
			}
			return graph.New1(out), nil
		},
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			l, err := of(c)
			if err != nil {
				return nil, err
			}
			if c.Meta(0).DType.OpMath() == tensor.Float32 {
				return compileNllLoss[float32](c, l)
			}
			return compileNllLoss[float64](c, l)
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			l, err := of(c)
			if err != nil {
				return nil, err
			}
			return l.ref(in)
		},
		Examples: []graph.Example{
			{In: []tensor.Meta{f(2, 3), tensor.New(tensor.Int64, 2), f(3)}},
			{In: []tensor.Meta{f(2, 3, 4), tensor.New(tensor.Int64, 2, 4)}, Attrs: graph.Attrs{"reduction": 0, "ignore_index": 1}},
		},
	})
}

func (l *nllLoss) check(name string, c *graph.Call) error {
	m, t, w := c.Meta(0), c.Meta(1), c.Meta(2)
	if l.reduction < 0 || l.reduction > 2 {
		return fmt.Errorf("%d is not a valid value for reduction", l.reduction)
	}
	var want []int
	switch {
	case m.Rank() == 0:
		return errors.New("input tensor should be 1D or 2D")
	case m.Rank() == 1:
		l.n, l.classes, l.inner = 1, m.Shape[0], 1
	default:
		l.n, l.classes, l.inner = m.Shape[0], m.Shape[1], tensor.Numel(m.Shape[2:])
		want = append([]int{l.n}, m.Shape[2:]...)
	}
	switch {
	case m.Rank() > 1 && (t.Rank() == 0 || t.Shape[0] != l.n):
		n := 0
		if t.Rank() > 0 {
			n = t.Shape[0]
		}
		return fmt.Errorf("Expected input batch_size (%d) to match target batch_size (%d).", l.n, n)
	case !slices.Equal(t.Shape, want):
		return fmt.Errorf("Expected target size %s, got %s", tensor.ListString(want), tensor.ListString(t.Shape))
	case c.Has(2) && (w.Rank() != 1 || w.Shape[0] != l.classes):
		return fmt.Errorf("weight tensor should be defined either for all %d classes or no classes but got weight tensor of shape: %s", l.classes, tensor.ListString(w.Shape))
	case !m.DType.IsFloat():
		return notServed("nll_loss_out_frame", m.DType)
	case t.DType != tensor.Int64:
		return fmt.Errorf("expected scalar type Long but found %s", t.DType.TorchName())
	case c.Has(2) && w.DType != m.DType:
		return fmt.Errorf("expected scalar type %s but found %s", m.DType.TorchName(), w.DType.TorchName())
	}
	return nil
}

func compileNllLoss[T float32 | float64](c *graph.Call, l *nllLoss) (*graph.Kernel, error) {
	d, n := tensor.DTypeOf[T](), l.n*l.inner
	x := newCompound(c)
	ins := append(x.operands(d), spot{})
	logs := ins[0]
	if l.entropy && logs.meta.Numel() > 0 {
		logs = x.temp(d, ins[0].meta.Shape...)
		x.call(LogSoftmax, graph.Attrs{"dim": min(1, logs.meta.Rank()-1)}, []spot{logs}, ins[0])
	}
	chunks := divUp(n, nllGrain)
	out, sums := x.result(0, d), x.temp(tensor.Float64, chunks, 2)
	x.run(0, 0, []spot{out, sums, logs, ins[1], ins[2]}, graph.Phase{Chunks: chunks, Run: func(m *graph.Mem, chunk int) error {
		v, target := elementsOf[T](m.Ptrs[2], n*l.classes), elementsOf[int64](m.Ptrs[3], n)
		w := elementsOf[T](m.Ptrs[4], l.classes)
		loss, total := 0.0, 0.0
		for i := chunk * nllGrain; i < min(n, (chunk+1)*nllGrain); i++ {
			t, one, by := target[i], T(0), T(1)
			if t != int64(l.ignore) {
				if uint64(t) >= uint64(l.classes) {
					return fmt.Errorf("Target %d is out of bounds.", t)
				}
				if w != nil {
					by = w[t]
				}
				one = -v[(i/l.inner*l.classes+int(t))*l.inner+i%l.inner] * by
				total += float64(by)
			}
			if l.reduction == 0 {
				elementsOf[T](m.Ptrs[0], n)[i] = one
			}
			loss += float64(one)
		}
		*(*[2]float64)(elem[[2]float64](m.Ptrs[1], chunk)) = [2]float64{loss, total}
		return nil
	}})
	if l.reduction != 0 {
		x.run(0, 0, []spot{out, sums}, graph.Phase{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
			loss, total := 0.0, 0.0
			for _, s := range elementsOf[[2]float64](m.Ptrs[1], chunks) {
				loss, total = loss+s[0], total+s[1]
			}
			if l.reduction == 1 {
				loss /= total
			}
			*(*T)(m.Ptrs[0]) = T(loss)
			return nil
		}})
	}
	return x.kernel()
}

// nllGrain is the number of targets of a chunk.
const nllGrain = 4096

func (l *nllLoss) ref(in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, t := in[0], in[1]
	if l.entropy {
		x = softmaxReference(x.CopyTo(tensor.New(tensor.Float64, x.Shape...)), min(1, x.Rank()-1), tensor.Float64, true)
	}
	each := tensor.Zeros(in[0].DType, t.Shape...)
	loss, total := 0.0, 0.0
	var err error
	eachIndex(t.Shape, func(index []int) {
		k := int(t.At(index...).Int())
		if k == l.ignore {
			return
		}
		if k < 0 || k >= l.classes {
			err = fmt.Errorf("Target %d is out of bounds.", k)
			return
		}
		at, by := []int{k}, 1.0
		if x.Rank() > 1 {
			at = append([]int{index[0], k}, index[1:]...)
		}
		if len(in) > 2 && in[2] != nil {
			by = in[2].At(k).Float()
		}
		one := -x.At(at...).Float() * by
		each.Set(tensor.FloatScalar(one), index...)
		loss, total = loss+one, total+by
	})
	switch l.reduction {
	case 0:
		return []*tensor.Tensor{each}, err
	case 1:
		if loss /= total; total == 0 {
			loss = math.NaN()
		}
	}
	out := tensor.Zeros(in[0].DType)
	out.Set(tensor.FloatScalar(loss))
	return []*tensor.Tensor{out}, err
}
