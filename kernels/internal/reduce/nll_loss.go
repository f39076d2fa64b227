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
	IgnoreIndex int `attr:"ignore_index" default:"-100" range:"int64" doc:"target class whose loss and weight are 0"`
}

type crossEntropyAttrs struct {
	Reduction   int     `attr:"reduction" default:"1" doc:"0: the loss of each target; 1: their weighted mean; 2: their sum"`
	IgnoreIndex int     `attr:"ignore_index" default:"-100" range:"int64" doc:"target class whose loss and weight are 0"`
	Smoothing   float64 `attr:"label_smoothing" default:"0" doc:"share of the targets that is spread evenly over all classes, 0 to 1"`
}

// Values of the attribute reduction.
const (
	reductionNone = iota
	reductionMean
	reductionSum
)

// NllLoss is the negated element of the target class. CrossEntropyLoss is the negated log-softmax at the target class.
var (
	NllLoss = nllLossOp(graph.SchemaOf[*nllLossAttrs](), "nll_loss",
		"Returns minus the element of the target class, times the weight of the class: self [n, c, ...] or [c], "+
			"`target` int64 [n, ...] and `weight` [c].", false, func(c *graph.Call) (int, int, float64) {
			attrs := kit.Attrs[*nllLossAttrs](c)
			return attrs.Reduction, attrs.IgnoreIndex, 0
		})
	CrossEntropyLoss = nllLossOp(graph.SchemaOf[*crossEntropyAttrs](), "cross_entropy_loss",
		"Returns minus the logarithm of the softmax at the target class, times the weight of the class: self [n, c, "+
			"...] or [c], `target` int64 [n, ...] and `weight` [c]. A `target` of self's shape has the probability of each "+
			"class instead of a class; the mean then divides by the number of targets, not by the sum of weights.", true,
		func(c *graph.Call) (int, int, float64) {
			attrs := kit.Attrs[*crossEntropyAttrs](c)
			return attrs.Reduction, attrs.IgnoreIndex, attrs.Smoothing
		})
)

// nllLoss has the sizes and attributes of a call. Let x be self or, for cross_entropy_loss, its log-softmax, viewed as
// [samples, classes, targetsPerSample]. For example, 2 images of 8x8 pixels with 21 classes have samples 2, classes 21
// and targetsPerSample 64. There is one target for each sample s and each position p:
//
//	loss[s, p] = -x[s, t, p] * weight[t]                                   if the target is the class t
//	loss[s, p] = -(sum over c of x[s, c, p] * probability[c] * weight[c])  if the target is a list of probabilities
//
// With smoothing, (1-smoothing)*probability[c] + smoothing/classes replaces the probability of class c. If the target
// is the class t, probability[t] is 1, and the other probabilities are 0. The mean of the losses is their sum, divided
// by the sum of weight[t] or, for probabilities, by the number of targets.
type nllLoss struct {
	samples, classes, targetsPerSample int
	reduction                          int     // reductionNone, reductionMean or reductionSum
	ignoreIndex                        int     // targets of this class do not count
	isCrossEntropy                     bool    // cross_entropy_loss, else nll_loss
	hasProbabilities                   bool    // targets are class probabilities
	smoothing                          float64 // share of the target that is spread over all classes
}

// nllLossOp defines cross_entropy_loss if isCrossEntropy is set, else nll_loss.
func nllLossOp(attrs *graph.Schema, name, doc string, isCrossEntropy bool,
	readAttrs func(c *graph.Call) (reduction, ignore int, smoothing float64)) *graph.Op {
	lossOf := func(c *graph.Call) (*nllLoss, error) {
		loss := &nllLoss{isCrossEntropy: isCrossEntropy}
		loss.reduction, loss.ignoreIndex, loss.smoothing = readAttrs(c)
		if !(loss.smoothing > 0) { // PyTorch ignores negative numbers and NaN
			loss.smoothing = 0
		}
		loss.hasProbabilities = isCrossEntropy && tensor.SameSizes(c.Type(0).Shape, c.Type(1).Shape)
		return loss, loss.checkAndSetSizes(c)
	}
	return kit.DefineWith(attrs, graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc,
			Params: []graph.Param{kit.Self, {Name: "target", IndexBound: classIndexBound}, kit.OptWeight},
			Infer: func(call *graph.Call) ([]graph.Result, error) {
				loss, err := lossOf(call)
				if err != nil {
					return nil, err
				}
				dtype, err := loss.resultDType(call)
				if err != nil || loss.reduction != reductionNone {
					return call.NewResult(tensor.NewType(dtype)), err
				}
				return call.NewResult(tensor.NewType(dtype, targetSizes(call.Type(0))...)), nil
			},
			Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
				loss, err := lossOf(c)
				if err != nil {
					return nil, err
				}
				dtype, err := loss.resultDType(c)
				if err != nil {
					return nil, err
				}
				return loss.ref(dtype, in)
			},
			Examples: []graph.Example{
				{In: []tensor.Meta{kit.F32(2, 3), tensor.New(tensor.Int64, 2), kit.F32(3)}},
				{In: []tensor.Meta{kit.F32(2, 3, 4), tensor.New(tensor.Int64, 2, 4)},
					Attrs: graph.Attrs{"reduction": reductionNone, "ignore_index": 1}},
			},
		},
		Facts: graph.Facts{FixedLayoutReason: "losses are written in row-major order while they are summed"},
		Lowerings: graph.Lowerings{
			Compile: func(c *graph.Call) (*graph.Kernel, error) {
				loss, err := lossOf(c)
				if err != nil {
					return nil, err
				}
				if c.Out[0].DType.OpMath() == tensor.Float32 {
					return compileNllLoss[float32](c, loss)
				}
				return compileNllLoss[float64](c, loss)
			},
		},
	})
}

// targetSizes returns the shape of targets that are classes: the shape of self, [n, c, ...] or [c], without c.
func targetSizes(self tensor.Type) []sym.Int {
	if self.Rank() == 1 {
		return nil
	}
	return append([]sym.Int{self.Shape[0]}, self.Shape[2:]...)
}

// resultDType returns the dtype of the result. It is the dtype of self or, if targets are probabilities, the promotion
// of the dtypes of self, targets and weights.
func (l *nllLoss) resultDType(c *graph.Call) (tensor.DType, error) {
	dtype := c.Type(0).DType
	if !l.hasProbabilities {
		return dtype, nil
	}
	var err error
	for i := 1; i < len(c.In) && err == nil; i++ {
		if c.HasOperand(i) {
			dtype, err = tensor.Promote(dtype, c.Type(i).DType)
		}
	}
	return dtype, err
}

// checkAndSetSizes checks a call and sets the fields for sizes.
func (l *nllLoss) checkAndSetSizes(call *graph.Call) error {
	self, target, weight := call.Type(0), call.Type(1), call.Type(2)
	if l.reduction < reductionNone || l.reduction > reductionSum {
		return fmt.Errorf("%d is not a valid value for reduction", l.reduction)
	}
	if self.Rank() == 0 {
		return errors.New("input tensor should be 1D or 2D")
	}
	classes := l.setSizes(self)
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
	hasWeight := call.HasOperand(2)
	isWeightDTypeValid := weight.DType.IsFloat() && (l.hasProbabilities || weight.DType == self.DType)
	switch {
	case hasWeight && (weight.Rank() != 1 || weight.Shape[0].Ne(classes).Holds()):
		return fmt.Errorf("weight tensor should be defined either for all %v classes or no classes but got weight tensor "+
			"of shape: %s", classes, tensor.Sizes(weight.Shape))
	case !self.DType.IsFloat():
		return kit.NotImplementedBy("nll_loss_out_frame", self.DType)
	case !l.hasProbabilities && target.DType != tensor.Int64:
		return fmt.Errorf("expected scalar type Long but found %s", target.DType.TorchName())
	case hasWeight && !isWeightDTypeValid:
		return fmt.Errorf("expected scalar type %s but found %s", self.DType.TorchName(), weight.DType.TorchName())
	}
	return nil
}

// setSizes sets the fields for sizes and returns the number of classes. For unknown sizes, which occur only in
// inference, the fields are hints.
func (l *nllLoss) setSizes(self tensor.Type) (classes sym.Int) {
	classes = self.Shape[min(1, self.Rank()-1)]
	l.samples, l.classes, l.targetsPerSample = 1, kit.KnownSize(classes), 1
	if self.Rank() > 1 {
		l.samples, l.targetsPerSample = kit.KnownSize(self.Shape[0]), kit.KnownSize(tensor.Product(self.Shape[2:]))
	}
	return classes
}

// checkTargets checks the shape of targets that are classes.
func checkTargets(self, target tensor.Type) error {
	expected := targetSizes(self)
	if self.Rank() > 1 && (target.Rank() == 0 || target.Shape[0].Ne(self.Shape[0]).Holds()) {
		batchSize := sym.Int{} // 0 for a 0-dimensional target
		if target.Rank() > 0 {
			batchSize = target.Shape[0]
		}
		return fmt.Errorf("Expected input batch_size (%v) to match target batch_size (%v).", self.Shape[0], batchSize)
	}
	if !tensor.SameSizes(target.Shape, expected) {
		return fmt.Errorf("Expected target size %s, got %s", tensor.Sizes(expected), tensor.Sizes(target.Shape))
	}
	return nil
}

// compileNllLoss returns the kernel for a computation in T. First, cross_entropy_loss computes the log-softmax. Then
// each chunk computes the losses of some targets, with their sum. A last phase computes the mean or sum of all losses.
func compileNllLoss[T float32 | float64](c *graph.Call, spec *nllLoss) (*graph.Kernel, error) {
	dtype, chunks := tensor.DTypeOf[T](), kit.DivUp(spec.targets(), machine.FunctionGrain)
	builder := copies.NewKernelBuilder(c)
	operands := append(builder.Operands(dtype), kit.Buffer{}) // operands[2]: the weight, or an empty buffer
	elements := operands[0]
	if spec.isCrossEntropy && elements.Meta.Numel() > 0 {
		elements = builder.NewScratch(dtype, operands[0].Meta.Shape...)
		builder.AddCall(LogSoftmax, graph.Attrs{"dim": min(1, elements.Meta.Rank()-1)}, []kit.Buffer{elements}, operands[0])
	}
	out, sums := builder.Result(0, dtype), builder.NewScratch(tensor.Float64, chunks, 2) // sums: a lossSums per chunk
	// mem.Ptrs has the pointers to these buffers, in order.
	builder.AddPhases(copies.NoScratch, copies.NoScratch, []kit.Buffer{out, sums, elements, operands[1], operands[2]},
		graph.Phase{Chunks: chunks, Run: func(mem *graph.Mem, chunk int) error {
			return computeLosses[T](spec, mem, chunk)
		}})
	if spec.reduction != reductionNone {
		builder.AddPhases(copies.NoScratch, copies.NoScratch, []kit.Buffer{out, sums}, reduceLosses[T](spec, chunks))
	}
	return builder.Kernel()
}

// targets returns the number of targets.
func (l *nllLoss) targets() int { return l.samples * l.targetsPerSample }

// lossSums has the sums over the targets of a chunk.
type lossSums struct{ loss, weight float64 }

// computeLosses computes the losses of the targets of a chunk, and stores their lossSums. mem.Ptrs has the result, the
// lossSums of all chunks, the elements, the targets and the weights.
func computeLosses[T float32 | float64](spec *nllLoss, mem *graph.Mem, chunk int) error {
	targets := spec.targets()
	data := &lossData[T]{nllLoss: spec, elements: kit.ElementsOf[T](mem.Ptrs[2], targets*spec.classes),
		classWeights: kit.ElementsOf[T](mem.Ptrs[4], spec.classes)}
	if spec.hasProbabilities {
		data.probabilities = kit.ElementsOf[T](mem.Ptrs[3], targets*spec.classes)
	} else {
		data.target = kit.ElementsOf[int64](mem.Ptrs[3], targets)
	}
	var sums lossSums
	for i := chunk * machine.FunctionGrain; i < min(targets, (chunk+1)*machine.FunctionGrain); i++ {
		loss, weight, err := data.lossAt(i)
		if err != nil {
			return err
		}
		if spec.reduction == reductionNone {
			kit.ElementsOf[T](mem.Ptrs[0], targets)[i] = loss
		}
		sums.loss += float64(loss)
		sums.weight += float64(weight)
	}
	*(*lossSums)(kit.AddressOf[lossSums](mem.Ptrs[1], chunk)) = sums
	return nil
}

// reduceLosses returns the phase that computes the mean or the sum of the losses from the lossSums of all chunks.
// mem.Ptrs has the result and the lossSums.
func reduceLosses[T float32 | float64](spec *nllLoss, chunks int) graph.Phase {
	return graph.Phase{Chunks: 1, Run: func(mem *graph.Mem, _ int) error {
		loss, weight := 0.0, 0.0
		for _, sums := range kit.ElementsOf[lossSums](mem.Ptrs[1], chunks) {
			loss += sums.loss
			weight += sums.weight
		}
		if spec.reduction == reductionMean {
			loss /= weight
		}
		*(*T)(mem.Ptrs[0]) = T(loss)
		return nil
	}}
}

// lossData has the operands of the loop over targets. Targets are class probabilities or classes.
type lossData[T float32 | float64] struct {
	*nllLoss
	elements      []T     // self or, for cross_entropy_loss, its log-softmax
	probabilities []T     // targets as class probabilities; else nil
	classWeights  []T     // nil without weights
	target        []int64 // targets as classes; else nil
}

// lossAt returns the loss of target i and its weight in a mean.
func (l *lossData[T]) lossAt(i int) (loss, weight T, err error) {
	sample, position := i/l.targetsPerSample, i%l.targetsPerSample
	base := sample*l.classes*l.targetsPerSample + position // index of class 0 in [samples, classes, targetsPerSample]
	if l.hasProbabilities {
		return -l.sumClasses(base, T(1-l.smoothing), T(l.smoothing)/T(l.classes)), 1, nil
	}
	class := l.target[i]
	if class == int64(l.ignoreIndex) {
		return 0, 0, nil
	}
	if uint64(class) >= uint64(l.classes) { // also negative targets
		return 0, 0, fmt.Errorf("Target %d is out of bounds.", class)
	}
	weight = 1
	if l.classWeights != nil {
		weight = l.classWeights[class]
	}
	loss = -l.elements[base+int(class)*l.targetsPerSample] * weight
	if l.smoothing > 0 {
		// (1-smoothing) of the loss of the class, plus smoothing/classes of the loss of every class. The conversion of
		// the product prevents a fused multiply-add, here and below.
		loss = T(loss*T(1-l.smoothing)) - l.sumClasses(base, 0, T(l.smoothing)/T(l.classes))
	}
	return loss, weight, nil
}

// sumClasses returns the sum of elements[class] * (share*probability[class] + sharePerClass) * weight[class] over all
// classes of a target. The probabilities are 0 if targets are classes. base is the index of the first class's element.
func (l *lossData[T]) sumClasses(base int, share, sharePerClass T) T {
	sum := 0.0
	for class := range l.classes {
		factor := sharePerClass
		if l.probabilities != nil {
			factor = T(l.probabilities[base+class*l.targetsPerSample]*share) + sharePerClass
		}
		if l.classWeights != nil {
			factor *= l.classWeights[class]
		}
		sum += float64(l.elements[base+class*l.targetsPerSample] * factor)
	}
	return T(sum)
}

// ref computes the result, of the given dtype, target by target.
func (l *nllLoss) ref(dtype tensor.DType, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	input, target := in[0], in[1]
	var classWeights *tensor.Tensor
	if len(in) > 2 {
		classWeights = in[2]
	}
	if l.isCrossEntropy {
		const isLog = true
		input = softmaxReference(input.CopyTo(tensor.New(tensor.Float64, input.Shape...)), min(1, input.Rank()-1),
			tensor.Float64, isLog)
	}
	losses := tensor.Zeros(dtype, kit.KnownSizes(targetSizes(input.Meta.Type()))...)
	lossSum, weightSum := 0.0, 0.0
	var err error
	kit.EachIndex(losses.Shape, func(index []int) {
		targetClass := -1 // if targets are probabilities
		if !l.hasProbabilities {
			if targetClass = int(target.At(index...).Int()); targetClass == l.ignoreIndex {
				return
			}
			if targetClass < 0 || targetClass >= l.classes {
				err = cmp.Or(err, fmt.Errorf("Target %d is out of bounds.", targetClass))
				return
			}
		}
		loss, weight := l.refLoss(input, target, classWeights, index, targetClass)
		losses.Set(tensor.FloatScalar(loss), index...)
		lossSum += loss
		weightSum += weight
	})
	result := lossSum
	switch l.reduction {
	case reductionNone:
		return []*tensor.Tensor{losses}, err
	case reductionMean:
		result = math.NaN()
		if weightSum != 0 {
			result = lossSum / weightSum
		}
	}
	out := tensor.Zeros(dtype)
	out.Set(tensor.FloatScalar(result))
	return []*tensor.Tensor{out}, err
}

// refLoss returns the loss of the target at an index, and its weight in a mean. targetClass is its class, or -1 if
// targets are probabilities. classWeights may be nil.
func (l *nllLoss) refLoss(input, target, classWeights *tensor.Tensor, index []int, targetClass int) (loss,
	meanWeight float64) {
	if l.hasProbabilities {
		meanWeight = 1
	}
	for class := range l.classes {
		elementIndex, classWeight := []int{class}, 1.0
		if input.Rank() > 1 {
			elementIndex = append([]int{index[0], class}, index[1:]...)
		}
		if classWeights != nil {
			classWeight = classWeights.At(class).Float()
		}
		probability := 0.0
		if l.hasProbabilities {
			probability = target.At(elementIndex...).Float()
		} else if class == targetClass {
			probability, meanWeight = 1, classWeight
		}
		probability = float64(probability*(1-l.smoothing)) + l.smoothing/float64(l.classes)
		// If targets are classes, classes of probability 0 are skipped: 0 times an infinite element is NaN.
		if l.hasProbabilities || probability != 0 {
			loss -= float64(input.At(elementIndex...).Float() * probability * classWeight)
		}
	}
	return loss, meanWeight
}

// classIndexBound returns the bound on targets: the number of classes. self is [n, classes, ...] or [classes].
func classIndexBound(c *graph.Call) int {
	return kit.SizeOrMissing(c.Meta(0), min(1, c.Meta(0).Rank()-1))
}
