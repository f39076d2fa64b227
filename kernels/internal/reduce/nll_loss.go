package reduce

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type nllLossAttrs struct {
	Reduction   int `attr:"reduction" default:"1" doc:"0: the loss of each target; 1: their weighted mean; 2: their sum"`
	IgnoreIndex int `attr:"ignore_index" default:"-100" range:"int64" doc:"target class that does not count"`
}

type crossEntropyAttrs struct {
	Reduction   int     `attr:"reduction" default:"1" doc:"0: the loss of each target; 1: their weighted mean; 2: their sum"`
	IgnoreIndex int     `attr:"ignore_index" default:"-100" range:"int64" doc:"target class that does not count"`
	Smoothing   float64 `attr:"label_smoothing" default:"0" doc:"share of the targets that is spread evenly over all classes, 0 to 1"`
}

// NllLoss is the negated element of the target class. CrossEntropyLoss is the negated log-softmax at the target class.
var (
	NllLoss = nllLossOp(graph.SchemaOf[nllLossAttrs](), "nll_loss",
		"Returns minus the element of the target class, times the weight of the class: self [n, c, ...] or [c], "+
			"`target` int64 [n, ...] and `weight` [c].", false, func(c *graph.Call) (int, int, float64) {
			a := kit.Attrs[nllLossAttrs](c)
			return a.Reduction, a.IgnoreIndex, 0
		})
	CrossEntropyLoss = nllLossOp(graph.SchemaOf[crossEntropyAttrs](), "cross_entropy_loss",
		"Returns minus the logarithm of the softmax at the target class, times the weight of the class: self [n, c, "+
			"...] or [c], `target` int64 [n, ...] and `weight` [c]. A `target` of self's shape has the probability of each "+
			"class instead; the mean is then over the number of targets, "+
			"not over their weights.", true, func(c *graph.Call) (int, int, float64) {
			a := kit.Attrs[crossEntropyAttrs](c)
			return a.Reduction, a.IgnoreIndex, a.Smoothing
		})
)

// nllLoss has the sizes and attributes of a call.
type nllLoss struct {
	samples, classes, targetsPerSample int
	reduction, ignoreIndex             int
	isCrossEntropy                     bool    // cross_entropy_loss, else nll_loss
	hasProbabilities                   bool    // targets are class probabilities
	smoothing                          float64 // share of the target that is spread over all classes
}

func nllLossOp(attrs *graph.Schema, name, doc string, isCrossEntropy bool,
	readAttrs func(c *graph.Call) (reduction, ignore int, smoothing float64)) *graph.Op {
	lossOf := func(c *graph.Call) (*nllLoss, error) {
		l := &nllLoss{isCrossEntropy: isCrossEntropy}
		l.reduction, l.ignoreIndex, l.smoothing = readAttrs(c)
		if !(l.smoothing > 0) { // PyTorch ignores negative numbers and NaN
			l.smoothing = 0
		}
		l.hasProbabilities = isCrossEntropy && tensor.SameSizes(c.Type(0).Shape, c.Type(1).Shape)
		return l, l.check(c)
	}
	f := func(shape ...int) tensor.Meta { return tensor.New(tensor.Float32, shape...) }
	return kit.DefineWith(attrs, graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc,
			Params: []graph.Param{kit.Self, {Name: "target", Below: classesOfSelf}, kit.OptWeight},
			Infer: func(call *graph.Call) ([]graph.Result, error) {
				l, err := lossOf(call)
				if err != nil {
					return nil, err
				}
				d, err := l.dtype(call)
				if err != nil || l.reduction != 0 {
					return call.One(tensor.NewType(d)), err
				}
				return call.One(tensor.NewType(d, targetSizes(call.Type(0))...)), nil
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				l, err := lossOf(c)
				if err != nil {
					return nil, err
				}
				d, err := l.dtype(c)
				if err != nil {
					return nil, err
				}
				return l.ref(d, in)
			},
			Examples: []graph.Example{
				{In: []tensor.Meta{f(2, 3), tensor.New(tensor.Int64, 2), f(3)}},
				{In: []tensor.Meta{f(2, 3, 4), tensor.New(tensor.Int64, 2, 4)},
					Attrs: graph.Attrs{"reduction": 0, "ignore_index": 1}},
			},
		},
		Facts: graph.Facts{FixedLayoutReason: "it writes the losses in row-major order while it sums them"},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) {
				l, err := lossOf(c)
				if err != nil {
					return nil, err
				}
				if c.Out[0].DType.OpMath() == tensor.Float32 {
					return compileNllLoss[float32](c, l)
				}
				return compileNllLoss[float64](c, l)
			},
		},
	})
}

// targetSizes returns the shape of self without its classes.
func targetSizes(m tensor.Type) []sym.Int {
	if m.Rank() == 1 {
		return nil
	}
	return append([]sym.Int{m.Shape[0]}, m.Shape[2:]...)
}

// dtype returns the dtype of the result: the dtype of self. If targets are probabilities, it is promoted with the
// dtypes of targets and weights.
func (l *nllLoss) dtype(c *graph.Call) (tensor.DType, error) {
	dtype := c.Type(0).DType
	if !l.hasProbabilities {
		return dtype, nil
	}
	var err error
	for i := 1; i < len(c.In) && err == nil; i++ {
		if c.Has(i) {
			dtype, err = tensor.Promote(dtype, c.Type(i).DType)
		}
	}
	return dtype, err
}

// check checks a call and records its known sizes.
func (l *nllLoss) check(call *graph.Call) error {
	self, target, weight := call.Type(0), call.Type(1), call.Type(2)
	if l.reduction < 0 || l.reduction > 2 {
		return fmt.Errorf("%d is not a valid value for reduction", l.reduction)
	}
	if self.Rank() == 0 {
		return errors.New("input tensor should be 1D or 2D")
	}
	classes := self.Shape[min(1, self.Rank()-1)]
	l.samples, l.classes, l.targetsPerSample = 1, kit.KnownSize(classes), 1
	if self.Rank() > 1 {
		l.samples, l.targetsPerSample = kit.KnownSize(self.Shape[0]), kit.KnownSize(tensor.Product(self.Shape[2:]))
	}
	if l.smoothing > 1 {
		return fmt.Errorf("label_smoothing must be between 0.0 and 1.0. Got: %g", l.smoothing)
	}
	switch {
	case l.hasProbabilities && !target.DType.IsFloat():
		return fmt.Errorf("Expected floating point type for target with class probabilities, got %s",
			target.DType.TorchName())
	case l.hasProbabilities && l.ignoreIndex >= 0:
		return errors.New("ignore_index is not supported for floating point target")
	case !l.hasProbabilities:
		if err := checkTargets(self, target); err != nil {
			return err
		}
	}
	switch {
	case call.Has(2) && (weight.Rank() != 1 || weight.Shape[0].Ne(classes).Holds()):
		return fmt.Errorf("weight tensor should be defined either for all %v classes or no classes but got weight tensor "+
			"of shape: %s", classes, tensor.Sizes(weight.Shape))
	case !self.DType.IsFloat():
		return kit.NotImplementedBy("nll_loss_out_frame", self.DType)
	case !l.hasProbabilities && target.DType != tensor.Int64:
		return fmt.Errorf("expected scalar type Long but found %s", target.DType.TorchName())
	case call.Has(2) && (!l.hasProbabilities && weight.DType != self.DType || !weight.DType.IsFloat()):
		return fmt.Errorf("expected scalar type %s but found %s", self.DType.TorchName(), weight.DType.TorchName())
	}
	return nil
}

// checkTargets checks the shape of targets that are classes.
func checkTargets(m, t tensor.Type) error {
	want := targetSizes(m)
	if m.Rank() > 1 && (t.Rank() == 0 || t.Shape[0].Ne(m.Shape[0]).Holds()) {
		n := sym.Int{}
		if t.Rank() > 0 {
			n = t.Shape[0]
		}
		return fmt.Errorf("Expected input batch_size (%v) to match target batch_size (%v).", m.Shape[0], n)
	}
	if !tensor.SameSizes(t.Shape, want) {
		return fmt.Errorf("Expected target size %s, got %s", tensor.Sizes(want), tensor.Sizes(t.Shape))
	}
	return nil
}

// lossData has the operands of the loop over targets. Targets are class probabilities or classes.
type lossData[T float32 | float64] struct {
	*nllLoss
	elements     []T     // self or, for cross_entropy_loss, its log-softmax
	probs        []T     // targets as class probabilities; else nil
	classWeights []T     // nil without weights
	target       []int64 // targets as classes; else nil
}

// lossAt returns the loss of target i and its weight in a mean.
func (l *lossData[T]) lossAt(i int) (loss, weight T, err error) {
	// self is [samples, classes, targetsPerSample]; base is the index of class 0 of target i.
	base := i/l.targetsPerSample*l.classes*l.targetsPerSample + i%l.targetsPerSample
	if l.hasProbabilities {
		return -l.sumClasses(base, T(1-l.smoothing), T(l.smoothing)/T(l.classes)), 1, nil
	}
	t := l.target[i]
	if t == int64(l.ignoreIndex) {
		return 0, 0, nil
	}
	if uint64(t) >= uint64(l.classes) { // also negative targets
		return 0, 0, fmt.Errorf("Target %d is out of bounds.", t)
	}
	weight = 1
	if l.classWeights != nil {
		weight = l.classWeights[t]
	}
	loss = -l.elements[base+int(t)*l.targetsPerSample] * weight
	if l.smoothing > 0 {
		// (1-smoothing) of the loss of the class, plus smoothing/classes of the loss of every class.
		loss = T(loss*T(1-l.smoothing)) - l.sumClasses(base, 0, T(l.smoothing)/T(l.classes))
	}
	return loss, weight, nil
}

// sumClasses returns the sum of elements[class] * (share*probability[class] + sharePerClass) * weight[class] over all
// classes of a target. The probabilities are 0 if targets are classes. base is the index of the first class's element.
func (l *lossData[T]) sumClasses(base int, share, sharePerClass T) T {
	sum := 0.0
	for k := range l.classes {
		factor := sharePerClass
		if l.probs != nil {
			factor = T(l.probs[base+k*l.targetsPerSample]*share) + sharePerClass
		}
		if l.classWeights != nil {
			factor *= l.classWeights[k]
		}
		sum += float64(l.elements[base+k*l.targetsPerSample] * factor)
	}
	return T(sum)
}

func compileNllLoss[T float32 | float64](c *graph.Call, spec *nllLoss) (*graph.Kernel, error) {
	dtype, n := tensor.DTypeOf[T](), spec.samples*spec.targetsPerSample
	builder := copies.NewKernelBuilder(c)
	ins := append(builder.Operands(dtype), kit.Buffer{})
	logs := ins[0]
	if spec.isCrossEntropy && logs.Meta.Numel() > 0 {
		logs = builder.Temp(dtype, ins[0].Meta.Shape...)
		builder.AddCall(LogSoftmax, graph.Attrs{"dim": min(1, logs.Meta.Rank()-1)}, []kit.Buffer{logs}, ins[0])
	}
	chunks := kit.DivUp(n, machine.FunctionGrain)
	out, sums := builder.Result(0, dtype), builder.Temp(tensor.Float64, chunks, 2)
	// mem.Ptrs has these buffers in order. A chunk stores the sum of its losses and the sum of their weights in sums.
	builder.AddPhases(0, 0, []kit.Buffer{out, sums, logs, ins[1], ins[2]},
		graph.Phase{Chunks: chunks, Run: func(mem *graph.Mem, chunk int) error {
			data := &lossData[T]{nllLoss: spec, elements: kit.ElementsOf[T](mem.Ptrs[2], n*spec.classes),
				classWeights: kit.ElementsOf[T](mem.Ptrs[4], spec.classes)}
			if spec.hasProbabilities {
				data.probs = kit.ElementsOf[T](mem.Ptrs[3], n*spec.classes)
			} else {
				data.target = kit.ElementsOf[int64](mem.Ptrs[3], n)
			}
			loss, weightSum := 0.0, 0.0
			for i := chunk * machine.FunctionGrain; i < min(n, (chunk+1)*machine.FunctionGrain); i++ {
				targetLoss, weight, err := data.lossAt(i)
				if err != nil {
					return err
				}
				if spec.reduction == 0 {
					kit.ElementsOf[T](mem.Ptrs[0], n)[i] = targetLoss
				}
				loss, weightSum = loss+float64(targetLoss), weightSum+float64(weight)
			}
			*(*[2]float64)(kit.AddressOf[[2]float64](mem.Ptrs[1], chunk)) = [2]float64{loss, weightSum}
			return nil
		}})
	if spec.reduction != 0 {
		builder.AddPhases(0, 0, []kit.Buffer{out, sums}, graph.Phase{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
			loss, weightSum := 0.0, 0.0
			for _, s := range kit.ElementsOf[[2]float64](m.Ptrs[1], chunks) {
				loss, weightSum = loss+s[0], weightSum+s[1]
			}
			if spec.reduction == 1 {
				loss /= weightSum
			}
			*(*T)(m.Ptrs[0]) = T(loss)
			return nil
		}})
	}
	return builder.Kernel()
}

func (l *nllLoss) ref(dtype tensor.DType, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	input, target := in[0], in[1]
	if l.isCrossEntropy {
		input = softmaxReference(input.CopyTo(tensor.New(tensor.Float64, input.Shape...)), min(1, input.Rank()-1),
			tensor.Float64, true)
	}
	losses := tensor.Zeros(dtype, kit.KnownSizes(targetSizes(input.Meta.Type()))...)
	loss, weightSum := 0.0, 0.0 // over all targets
	var err error
	kit.EachIndex(losses.Shape, func(index []int) {
		// The class of the target is -1 if targets are probabilities. Smoothing adds the share to each class.
		targetClass, sharePerClass, targetLoss := -1, l.smoothing/float64(l.classes), 0.0
		if !l.hasProbabilities {
			if targetClass = int(target.At(index...).Int()); targetClass == l.ignoreIndex {
				return
			}
			if targetClass < 0 || targetClass >= l.classes {
				err = cmp.Or(err, fmt.Errorf("Target %d is out of bounds.", targetClass))
				return
			}
		}
		for class := range l.classes {
			at, weight := []int{class}, 1.0
			if input.Rank() > 1 {
				at = append([]int{index[0], class}, index[1:]...)
			}
			if len(in) > 2 && in[2] != nil {
				weight = in[2].At(class).Float()
			}
			prob := 0.0
			if l.hasProbabilities {
				prob = target.At(at...).Float()
			} else if class == targetClass {
				prob = 1
				weightSum += weight
			}
			// If targets are classes, classes of share 0 are skipped: 0 times an infinite element is NaN.
			if prob = float64(prob*(1-l.smoothing)) + sharePerClass; l.hasProbabilities || prob != 0 {
				targetLoss -= float64(input.At(at...).Float() * prob * weight)
			}
		}
		if l.hasProbabilities {
			weightSum++
		}
		losses.Set(tensor.FloatScalar(targetLoss), index...)
		loss += targetLoss
	})
	switch l.reduction {
	case 0:
		return []*tensor.Tensor{losses}, err
	case 1:
		if loss /= weightSum; weightSum == 0 {
			loss = math.NaN()
		}
	}
	out := tensor.Zeros(dtype)
	out.Set(tensor.FloatScalar(loss))
	return []*tensor.Tensor{out}, err
}

// classesOfSelf returns the number of classes, which bounds targets. self is [n, classes, ...] or [classes].
func classesOfSelf(c *graph.Call) int { return kit.SizeOf(c.Meta(0), min(1, c.Meta(0).Rank()-1)) }
