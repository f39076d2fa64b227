package reduce

import (
	"cmp"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

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
		targetClass := -1 // -1: targets are probabilities
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

// refLoss returns the loss of the target at an index, and its weight in a mean. targetClass is the class of the target,
// or -1 if targets are probabilities. classWeights may be nil.
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
		// If targets are classes, classes of probability 0 are skipped, because 0 times an infinite element is NaN.
		if l.hasProbabilities || probability != 0 {
			loss -= float64(input.At(elementIndex...).Float() * probability * classWeight)
		}
	}
	return loss, meanWeight
}
