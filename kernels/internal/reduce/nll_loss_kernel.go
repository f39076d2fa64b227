package reduce

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// This file has the kernel of nll_loss and cross_entropy_loss. The formulas are in the comment of [nllLoss].

// Indices in mem.Ptrs of the buffers of the phases. The last phase has only the first two buffers.
const (
	lossResultPtr   = iota // the losses, or their mean or sum
	lossSumsPtr            // a lossSums for each chunk
	lossElementsPtr        // self or, for cross_entropy_loss, its log-softmax
	lossTargetsPtr         // classes, or class probabilities
	lossWeightsPtr         // weights of the classes
)

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
	// The order of the buffers is the order of lossResultPtr and so on.
	builder.AddPhases(copies.NoScratch, copies.NoScratch, []kit.Buffer{out, sums, elements, operands[1], operands[2]},
		graph.Phase{Chunks: chunks, Run: func(mem *graph.Mem, chunk int) error {
			return computeLosses[T](spec, mem, chunk)
		}})
	if spec.reduction != reductionNone {
		builder.AddPhases(copies.NoScratch, copies.NoScratch, []kit.Buffer{out, sums}, reduceLosses[T](spec, chunks))
	}
	return builder.Kernel()
}

// lossSums has the sums over the targets of a chunk.
type lossSums struct{ loss, weight float64 }

// computeLosses computes the losses of the targets of a chunk, and stores their lossSums.
func computeLosses[T float32 | float64](spec *nllLoss, mem *graph.Mem, chunk int) error {
	targets := spec.targets()
	data := &lossData[T]{nllLoss: spec, elements: kit.ElementsOf[T](mem.Ptrs[lossElementsPtr], targets*spec.classes),
		classWeights: kit.ElementsOf[T](mem.Ptrs[lossWeightsPtr], spec.classes)}
	if spec.hasProbabilities {
		data.probabilities = kit.ElementsOf[T](mem.Ptrs[lossTargetsPtr], targets*spec.classes)
	} else {
		data.target = kit.ElementsOf[int64](mem.Ptrs[lossTargetsPtr], targets)
	}
	var sums lossSums
	for i := chunk * machine.FunctionGrain; i < min(targets, (chunk+1)*machine.FunctionGrain); i++ {
		loss, weight, err := data.lossAt(i)
		if err != nil {
			return err
		}
		if spec.reduction == reductionNone {
			kit.ElementsOf[T](mem.Ptrs[lossResultPtr], targets)[i] = loss
		}
		sums.loss += float64(loss)
		sums.weight += float64(weight)
	}
	*(*lossSums)(kit.AddressOf[lossSums](mem.Ptrs[lossSumsPtr], chunk)) = sums
	return nil
}

// reduceLosses returns the phase that computes the mean or the sum of the losses from the lossSums of all chunks.
func reduceLosses[T float32 | float64](spec *nllLoss, chunks int) graph.Phase {
	return graph.Phase{Chunks: 1, Run: func(mem *graph.Mem, _ int) error {
		loss, weight := 0.0, 0.0
		for _, sums := range kit.ElementsOf[lossSums](mem.Ptrs[lossSumsPtr], chunks) {
			loss += sums.loss
			weight += sums.weight
		}
		if spec.reduction == reductionMean {
			loss /= weight
		}
		*(*T)(mem.Ptrs[lossResultPtr]) = T(loss)
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
		// The loss is (1-smoothing) * loss of the target class + smoothing/classes * sum of the losses of all classes.
		// The conversion of the product prevents a fused multiply-add, here and below.
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
